"""``python -m experiments.blindness``: live hosts that are called down, and blindness that is calm, in any answer."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.blindness.faults import FAULTS, Fault
from experiments.blindness.pipeline import Pipeline
from experiments.harness import machine, outcome, surfaces
from experiments.harness.answers import Said, Truth, summary
from experiments.harness.surfaces import Ask
from experiments.processes.program import program

_TURN_SECONDS = 0.2
_AFTER_SECONDS = 8.0
_SLOWEST_COMMAND = 3.0  #: seconds from the start of a command to its reading, on a busy machine


@program("blindness")
def main(argv: list[str]) -> int:
    """Count, print, and say whether nothing false was answered."""
    given = _parser().parse_args(argv)
    chosen = [fault for fault in FAULTS if not given.only or fault.name in given.only]
    with tempfile.TemporaryDirectory(prefix="shardpulse-blindness-") as name:
        found = run(Path(name), given.hosts, chosen, given.commands)
    wrong = [
        f"{fault}: {surface}: {row['down']} answers call live hosts down, in {row['calm']} blindness is calm"
        for fault, rows in found.items()
        for surface, row in rows.items()
        if row["down"] or row["calm"]
    ]
    figures = {"hosts": given.hosts, "redis": machine.describe(), "faults": found}
    return outcome.conclude(outcome.document("blindness", argv, wrong, figures), given, _text)


def run(directory: Path, hosts: int, faults: Sequence[Fault], commands: bool) -> dict[str, Any]:
    """All faults one after the other on one pipeline; by fault and surface what was said."""
    found = {}
    with Pipeline(directory, hosts) as pipeline:
        for fault in faults:
            pipeline.wait_until_all_current()
            print(f"{fault.name} ...", file=sys.stderr, flush=True)
            found[fault.name] = summary(*_one(pipeline, fault, commands))
    return found


def _one(pipeline: Pipeline, fault: Fault, commands: bool) -> tuple[list[Said], Truth]:
    """One fault, while everything is asked."""
    said: list[Said] = []
    began = time.monotonic()
    end = began + fault.seconds + _AFTER_SECONDS
    asks = list(surfaces.reader_surfaces(pipeline.addresses).values())
    asks.append(surfaces.http_surface(pipeline.port))
    if commands:
        asks.append(surfaces.command_surface(pipeline.config, pipeline.addresses))
    threads = [threading.Thread(target=_ask, args=(ask, said, began, end)) for ask in asks]
    threads.append(threading.Thread(target=_listen, args=(pipeline.port, said, began, end)))
    for thread in threads:
        thread.start()
    with contextlib.ExitStack() as stack:
        for thread in threads:
            stack.callback(thread.join)
        fault.do(pipeline)
        time.sleep(max(0.0, began + fault.seconds - time.monotonic()))
        fault.undo(pipeline)
    blind = (fault.blind_after, fault.seconds - _SLOWEST_COMMAND) if fault.blind_after else None
    return said, Truth(pipeline.hosts, fault.gone(pipeline), blind)


def _ask(ask: Ask, said: list[Said], began: float, end: float) -> None:
    _each(lambda: [ask()], said, began, end)


def _listen(port: int, said: list[Said], began: float, end: float) -> None:
    for event in surfaces.stream_events(port, end):
        said.append(event._replace(at=time.monotonic() - began))


def _each(ask: Callable[[], list[Said]], said: list[Said], began: float, end: float) -> None:
    while (now := time.monotonic()) < end:
        said += [each._replace(at=now - began) for each in ask()]
        time.sleep(_TURN_SECONDS)


def _parser() -> argparse.ArgumentParser:
    made = outcome.parser(
        "blindness",
        "Kill, freeze and cut each part of a real pipeline while its readers are asked all the time; count the answers "
        "in which a live host is down, and those in which nobody can be seen and not a word says so.",
        "examples:\n  python -m experiments.blindness\n  python -m experiments.blindness --only 'filter killed'",
        hosts=100,
    )  # fmt: skip
    made.add_argument("--only", action="append", default=[], metavar="FAULT", help="this one; may be repeated")
    made.add_argument(
        "--no-commands", dest="commands", action="store_false", help="do not run `shardpulse query`, `top`"
    )
    return made


def _text(document: dict[str, Any]) -> list[str]:
    lines = [f"{'fault':<16}{'surface':<26}{'answers':>8}{'down':>6}{'calm':>6}  last word"]
    for fault, rows in document["faults"].items():
        for surface, row in sorted(rows.items()):
            lines.append(
                f"{fault:<16}{surface:<26}{row['answers']:>8}{row['down']:>6}{row['calm']:>6}  {row['told'][:150]}"
            )
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
