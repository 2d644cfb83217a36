"""Fuzz worker: runs every OF-th case of one kind up to its target.

    python -m experiments.fuzz.worker     (orders and answers as JSON lines on stdin and stdout)

The order: ``{kind, seed, share, of, target, progress_file, failures}``. Answers: ``{"done", ...}`` about once a second,
the last one with ``"finished": true``. The number of the current case is in the progress file, so that a case that
kills or hangs the process can be identified.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments.fuzz import fields, frames, lines
from experiments.fuzz.guard import MemoryWatch
from experiments.processes.control import Orders, say

KINDS: dict[str, ModuleType] = {kind.KIND: kind for kind in (lines, frames, fields)}
_MOST_FAILURES = 20
_TELL_SECONDS = 1.0


def main() -> None:
    """Serve one order."""
    order = Orders().wait()
    kind = KINDS[order["kind"]]
    progress = os.open(order["progress_file"], os.O_CREAT | os.O_WRONLY, 0o600)
    memory = MemoryWatch()
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    done, number, told, slowest = 0, order["share"], 0.0, (0.0, 0)
    while done < order["target"] and len(failures) < _MOST_FAILURES:
        os.pwrite(progress, number.to_bytes(8, "little"), 0)
        case = kind.session(order["seed"], number)
        began = time.process_time()
        try:
            counts.update(kind.run(case)._asdict())
        except Exception as error:  # any exception here is a failure
            failures.append(_failure(order, kind, case, number, error))
        slowest = max(slowest, (time.process_time() - began, number))
        done += case.mutated
        counts["sessions"] += 1
        number += order["of"]
        memory.look(done)
        if time.monotonic() > told + _TELL_SECONDS:
            told = time.monotonic()
            say({"done": done, "failures": len(failures)})
    say({
        "finished": True, "done": done, "failures": failures, "counts": dict(counts), "memory": memory.points,
        "slowest_seconds": slowest[0], "slowest_case": slowest[1],
    })  # fmt: skip


def _failure(order: dict[str, Any], kind: ModuleType, case: Any, number: int, error: Exception) -> dict[str, Any]:
    """A failure, with its input saved."""
    directory = Path(order["failures"])
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{order['kind']}-seed{order['seed']}-case{number}.txt"
    path.write_bytes(kind.dump(case))
    return {
        "kind": order["kind"],
        "case": number,
        "error": f"{type(error).__name__}: {error}"[:1000],
        "where": traceback.format_exc(limit=-3)[-2000:],
        "input": str(path),
    }


if __name__ == "__main__":
    main()
