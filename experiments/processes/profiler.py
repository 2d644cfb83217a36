"""Sampling profiler of a Python process's CPU time.

ITIMER_PROF sends SIGPROF after every 2 ms of CPU time, and the handler counts the line and the functions that were
running. Time inside a C function counts for the calling line. Costs about 1%, and nothing if unused.

    python -m experiments.processes.profiler OUTPUT.json MODULE [ARGUMENT ...]

runs a module as ``python -m`` would and writes its profile at the end.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_PERIOD = 0.002
_TOP = 25
_ROOT = Path(__file__).resolve().parents[2]


class Profile:
    """Counts by line and, including callees, by function; without ``around`` and its callers."""

    def __init__(self, around: FrameType | None) -> None:
        self._around = around  # its functions are in every sample and would fill the top
        self.samples = 0
        self._began = time.process_time()
        self._lines: Counter[tuple[CodeType, int]] = Counter()
        self._functions: Counter[CodeType] = Counter()

    def take(self, _signal: int, frame: FrameType | None) -> None:
        """The SIGPROF handler."""
        if frame is None:
            return
        self.samples += 1
        self._lines[frame.f_code, frame.f_lineno] += 1
        seen = set()
        walk: FrameType | None = frame
        while walk is not None and walk is not self._around:
            seen.add(walk.f_code)
            walk = walk.f_back
        self._functions.update(seen)

    def document(self, top: int = _TOP) -> dict[str, Any]:
        """Shares of the samples: ``lines`` alone, ``functions`` including callees."""
        total = max(1, self.samples)
        lines = [
            {"share": count / total, "where": f"{_place(code)}:{line}", "function": code.co_qualname}
            for (code, line), count in self._lines.most_common(top)
        ]
        functions = [
            {"share": count / total, "where": f"{_place(code)}:{code.co_firstlineno}", "function": code.co_qualname}
            for code, count in self._functions.most_common(top)
        ]
        return {
            "samples": self.samples,
            "cpu_seconds": round(time.process_time() - self._began, 3),
            "lines": lines,
            "functions": functions,
        }


@contextmanager
def profiling(output: str | None) -> Iterator[None]:
    """Profile the block into the JSON file ``output``; None: do nothing. Main thread only."""
    if output is None:
        yield
        return
    profile = Profile(sys._getframe(2))  # the frame of the with statement, above contextlib's
    signal.signal(signal.SIGPROF, profile.take)
    signal.setitimer(signal.ITIMER_PROF, _PERIOD, _PERIOD)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        Path(output).write_text(json.dumps(profile.document(), indent=1))


def format_profile(name: str, document: dict[str, Any], top: int = 15) -> str:
    """The top of a profile as text."""
    rows = [f"profile of {name}: {document['samples']} samples of {document['cpu_seconds']:.2f} s"]
    for kind in ("lines", "functions"):
        rows.append(f"  {kind}")
        rows.extend(f"  {row['share']:7.1%}  {row['where']}  {row['function']}" for row in document[kind][:top])
    return "\n".join(rows)


def main(argv: list[str]) -> None:
    """Run the module named in ``argv`` under the profiler."""
    if len(argv) < 2:
        sys.exit("usage: python -m experiments.processes.profiler OUTPUT.json MODULE [ARGUMENT ...]")
    output, module, *arguments = argv
    sys.argv = [module, *arguments]
    with profiling(output):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def _place(code: CodeType) -> str:
    path = code.co_filename
    return os.path.relpath(path, _ROOT) if path.startswith(str(_ROOT)) else "/".join(Path(path).parts[-2:])


if __name__ == "__main__":
    main(sys.argv[1:])
