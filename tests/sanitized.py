"""The steps in C under AddressSanitizer and UndefinedBehaviorSanitizer: ``tests/run --sanitize``.

    python tests/sanitized.py [ARGUMENTS OF PYTEST]

Compiles them in a copy of the checkout, which is removed in the end, and runs their tests and the fuzzers there. The
first error that a sanitizer finds ends the process that made it, and so fails its test. Leaks are not looked for: the
interpreter frees little at its end.
"""

from __future__ import annotations

# ruff: noqa: E402
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT / "deploy"))

from environment import NATIVE  # needs the path above; imports the standard library only

#: Tests that call the steps and start no other program: a redis-server bears no preloaded allocator.
TESTS = (
    "tests/acquisition/snapshot/test_heads.py",
    "tests/filters/archive/test_archive_rollup.py",
    "tests/filters/kernels",
    "tests/filters/worker/test_inputs.py",
    "tests/filters/worker/test_step_native.py",
    "tests/filters/worker/test_step_next.py",
    "tests/filters/worker/test_step_turns.py",
    "tests/probes/figures/test_host_step.py",
    "tests/probes/figures/test_process_step.py",
    "tests/probes/sampling/test_columns.py",
)
FUZZ = ("--lines", "60000", "--frames", "10000", "--fields", "5000", "--entries", "0", "--failures", "fuzz-failures")
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
#: Objects of Python's own allocator lie in arenas in which no overflow is seen; the quarantine would pass for growth.
OPTIONS = {
    "PYTHONMALLOC": "malloc",
    "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=1:log_path={report}",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:log_path={report}",
}
_LEFT_OUT = (".git", ".venv", ".hypothesis", ".*_cache", "__pycache__", "*.so", "*.egg-info", "build", "fuzz-failures")
#: Each module is the sanitized one.
_CHECK = "import {modules}, sys; assert all(sys.modules[name].__file__.startswith({place!r}) for name in {names})"


def main(arguments: list[str]) -> int:
    """Build, test, fuzz; 0 when no sanitizer and no test found anything, 69 without the libraries."""
    library = _library("libasan.so")
    if library is None:
        print("tests/run: error: the compiler has no libasan.so (Debian, Ubuntu: apt install gcc)", file=sys.stderr)
        return 69
    with tempfile.TemporaryDirectory(prefix="shardpulse-sanitized-") as name:
        place = Path(name) / "checkout"
        shutil.copytree(CHECKOUT, place, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
        flags = {"CFLAGS": SANITIZE, "LDFLAGS": SANITIZE, "SHARDPULSE_STRICT_BUILD": ""}
        _run(place, flags, "setup.py", "--quiet", "build_ext", "--inplace")
        options = {key: value.format(report=f"{name}/report") for key, value in OPTIONS.items()}
        under = {**options, "LD_PRELOAD": library, "PYTHONPATH": str(place)}
        names = [step.replace("/", ".") for step in NATIVE]
        _run(place, under, "-c", _CHECK.format(modules=", ".join(names), names=names, place=str(place)))
        workers = str(min(4, os.cpu_count() or 1))
        tested = _run(place, under, "-m", "pytest", "-n", workers, *TESTS, *arguments, check=False)
        fuzzed = _run(place, under, "-m", "experiments.fuzz", *FUZZ, check=False)
        reports = sorted(Path(name).glob("report.*"))  # pytest keeps what a test that dies has printed
        for report in reports:
            print(report.read_text(errors="replace"), file=sys.stderr)
    return 1 if tested or fuzzed or reports else 0


def _library(name: str) -> str | None:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return None
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    return found.strip() if Path(found.strip()).is_absolute() else None


def _run(place: Path, settings: dict[str, str], *arguments: str, check: bool = True) -> int:
    return subprocess.run(
        [sys.executable, *arguments], cwd=place, env={**os.environ, **settings}, check=check
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
