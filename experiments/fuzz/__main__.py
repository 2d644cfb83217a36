"""Fuzzing with hostile lines, frames and entries: no crash, hang, lie or growth."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from acquisition.errors import EXIT_OK, UsageError
from experiments.fuzz.entries import fuzz as fuzz_entries
from experiments.fuzz.guard import growth
from experiments.fuzz.worker import KINDS
from experiments.harness import outcome
from experiments.processes.control import Child, ChildFailed, python
from experiments.processes.program import program

_SILENCE_SECONDS = 60.0  #: a worker without output for so long hangs inside one call

_DESCRIPTION = """\
Mutate captured lines of vmstat and pidstat (bits, cuts, joins, numbers, scripts, NUL, huge fields, other
locales, swapped columns) and send them through the real parsers and checks; mutate frames, with broken
and with repaired checksums, and send them through the decoder and the paths of filter and archive in memory; mutate
tables, positions, commits, accounts, books of the archive and records (numbers that are none, ids of other lengths,
text that is no UTF-8) and send them through their decoders and those who go on with what these let pass; write
arbitrary entries and fields as a foreign client into the streams and keys of real shards, and trim streams, with a real
filter process and real readers beside emulated hosts that must not notice.

The verdict: no exception but the documented ones, no input that takes longer than it may, no VALID value
that is not what its line says in that column or lies outside its metric's range (a second, independent
reading of the same lines judges), no VALID sample of a frame that was not sent as such, nothing let pass that
a program could not be reported, memory flat."""

_EXAMPLES = """\
examples:
  python -m experiments.fuzz --lines 10000000 --frames 1000000 --fields 10000000 --entries 100000 --json --save fuzz
  python -m experiments.fuzz --lines 200000 --frames 20000 --entries 0 --seed 7
  python -m experiments.fuzz --seed 7 --only lines/12345      that case again, alone, with its traceback"""


@program("fuzz")
def main(argv: list[str]) -> int:
    """Fuzz, print, save; 0 when nothing was found."""
    given = parse(argv)
    if given.only:
        return again(given)
    parts = fuzz(given)
    failures = [failure for part in parts.values() for failure in part["failures"]]
    document = outcome.document("fuzz", argv, failures, {"seed": given.seed, **parts})
    return outcome.conclude(document, given, text)


def parse(argv: list[str]) -> argparse.Namespace:
    """The options. Raises UsageError."""
    parser = outcome.parser("fuzz", _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("--lines", type=int, default=1_000_000, metavar="N", help="mutated lines of vmstat and pidstat (default 10^6)")
    add("--frames", type=int, default=100_000, metavar="N", help="mutated frames (default 10^5)")
    add("--fields", type=int, default=100_000, metavar="N", help="mutated tables, positions, records … (default 10^5)")
    add("--entries", type=int, default=10_000, metavar="N", help="foreign entries in real streams (default 10^4)")
    add("--seed", type=int, default=1, metavar="N", help="every case is a function of it (default 1)")
    add("--workers", type=int, default=2, metavar="N", help="processes that share lines and frames (default 2)")
    add("--only", metavar="KIND/CASE", help="run one case of that seed alone: lines/12345, frames/678, fields/9")
    add("--failures", default="fuzz-failures", metavar="DIR", help="where inputs of failures are saved (fuzz-failures)")
    given = parser.parse_args(argv)
    if min(given.lines, given.frames, given.fields, given.entries) < 0 or given.workers < 1:
        raise UsageError("amounts are not negative, and there is at least one worker")
    return given


def again(given: argparse.Namespace) -> int:
    """Run one case alone, without catching its exception."""
    kind, _, number = given.only.partition("/")
    if kind not in KINDS or not number.isdigit():
        raise UsageError(f"--only {given.only!r} is not KIND/NUMBER of {', '.join(KINDS)}")
    print(KINDS[kind].run(KINDS[kind].session(given.seed, int(number))))
    return EXIT_OK


def fuzz(given: argparse.Namespace) -> dict[str, Any]:
    """Run all kinds one after the other; the findings of each."""
    parts: dict[str, Any] = {}
    for kind, target in (("lines", given.lines), ("frames", given.frames), ("fields", given.fields)):
        if target:
            parts[kind] = _in_parallel(kind, target, given)
    if given.entries:
        parts["entries"] = fuzz_entries(given.seed, given.entries)
    return parts


def _in_parallel(kind: str, target: int, given: argparse.Namespace) -> dict[str, Any]:
    """The cases of one kind, shared by the workers."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardpulse-fuzz-") as name, ExitStack() as stack:
        command = python("experiments.fuzz.worker")
        children = [stack.enter_context(Child(f"fuzz worker {n}", command)) for n in range(given.workers)]
        for number, child in enumerate(children):
            child.send({
                "kind": kind, "seed": given.seed, "share": number, "of": given.workers,
                "target": -(-target // given.workers), "progress_file": f"{name}/{number}",
                "failures": str(Path(given.failures).resolve()),
            })  # fmt: skip
        answers = [_follow(child, Path(name) / str(number), kind) for number, child in enumerate(children)]
    return _summary(answers, -(-target // given.workers)) | {"seconds": round(time.monotonic() - began, 1)}


def _follow(child: Child, progress: Path, kind: str) -> dict[str, Any]:
    """A worker's last answer. If it dies or falls silent, its current case has failed."""
    try:
        while True:
            answer = child.receive(_SILENCE_SECONDS)
            if answer.get("finished"):
                return answer
    except ChildFailed as error:
        case = int.from_bytes(progress.read_bytes(), "little") if progress.exists() else -1
        failure = {"kind": kind, "case": case, "error": f"hang or crash: {error}", "where": "", "input": ""}
        return {"done": 0, "failures": [failure], "counts": {}, "memory": [], "slowest_seconds": 0.0, "slowest_case": 0}


def _summary(answers: list[dict[str, Any]], target: int) -> dict[str, Any]:
    memory = [growth(answer["memory"], target) for answer in answers]
    failures = [failure for answer in answers for failure in answer["failures"]]
    failures += [
        {"kind": "memory", "case": -1, "error": f"worker {number} grew: {found}", "where": "", "input": ""}
        for number, found in enumerate(memory)
        if not found["flat"]
    ]
    counts = {name: sum(answer["counts"].get(name, 0) for answer in answers) for name in answers[0]["counts"]}
    slowest = max(answers, key=lambda answer: float(answer["slowest_seconds"]))
    return {
        "mutated": sum(answer["done"] for answer in answers),
        **counts,
        "slowest_case": slowest["slowest_case"],
        "slowest_cpu_seconds": round(slowest["slowest_seconds"], 3),
        "memory": memory,
        "failures": failures,
    }


def text(document: dict[str, Any]) -> list[str]:
    """The document as text."""
    rows = []
    for kind in (*KINDS, "entries"):
        if kind in document:
            figures = {name: value for name, value in document[kind].items() if name != "failures"}
            rows.append(f"{kind}: " + ", ".join(f"{name} {value}" for name, value in figures.items()))
    for failure in document["failures"]:
        rows.append(f"FAILED {failure['kind']}/{failure['case']}: {failure['error']}\n{failure['where']}")
        if failure["input"]:
            rows.append(f"  input: {failure['input']}")
    return [*rows, "nothing found" if document["passed"] else f"{len(document['failures'])} failures"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
