"""``python -m experiments.rolling``: workers and services replaced each second, nothing lost and nobody down."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from acquisition.link.resp import Address
from acquisition.shards.machine import free_ports
from experiments.harness import balance, machine, outcome, pipeline, surfaces
from experiments.harness.answers import Said, Truth, summary
from experiments.harness.options import Options
from experiments.harness.pipeline import Pipeline
from experiments.harness.surfaces import Ask
from experiments.processes.control import Child, product
from experiments.processes.program import program

_TURN_SECONDS = 0.2
_SETTLE_SECONDS = 10.0  #: before the first and after the last restart
_HELD_SECONDS = 120.0
#: Not /v1/heat: the emulated hosts send figures of VMs alone, so nobody's own state is in it.
_PATHS = ("/v1/hosts?fields=state", "/v1/snapshot?fields=mean", "/v1/hot", "/v1/moves")


@program("rolling")
def main(argv: list[str]) -> int:
    """Roll, print, and say whether the books balance and nothing false was answered."""
    given = _parser().parse_args(argv)
    outcome.require_positive(given, "hosts", "entities", "metrics", "seconds", "every", "filters", "services")
    with tempfile.TemporaryDirectory(prefix="shardpulse-rolling-") as name:
        failures, figures = run(given, Path(name))
    return outcome.conclude(outcome.document("rolling", argv, failures, figures), given, _text)


def run(given: argparse.Namespace, directory: Path) -> tuple[list[str], dict[str, Any]]:
    """One run on fresh shards: what failed, and the figures."""
    options = outcome.filled(Options, argparse.Namespace(**vars(given), held_seconds=_HELD_SECONDS))
    said: list[Said] = []
    with pipeline.running(options, directory) as parts, contextlib.ExitStack() as stack:
        services = Services(given.services, directory, parts.shards.addresses)
        stack.callback(services.stop)
        parts.tell("start")
        time.sleep(_SETTLE_SECONDS)
        before = parts.mark()
        with _asking([*surfaces.reader_surfaces(parts.shards.addresses).values(), *services.asks], said):
            ends = _roll(given, parts, directory / "filter.toml", services)
            time.sleep(_SETTLE_SECONDS)
        after = parts.mark()
        reports = parts.finish()
        books = balance.read(parts.cluster)
        figures = balance.balance(books, sum(report["counts"]["samples"] for report in reports))
        _, verdict = parts.verify(reports)
        figures |= {"missed_ticks": after.offered.missed, "mismatches": verdict.mismatches}
        failures = balance.problems(figures, overload=False)
        if verdict.mismatches:
            failures.append(f"{verdict.mismatches} samples of {verdict.samples} are not those of the scalar model")
        about = machine.describe()
    answers = summary(said, Truth(options.hosts))
    for surface, row in answers.items():
        if row["down"] or row["calm"]:
            failures.append(f"{surface}: live hosts down in {row['down']} answers, blindness calm in {row['calm']}")
    offered = (after.offered.samples - before.offered.samples) / (after.usage.at - before.usage.at)
    return failures, {
        "samples_per_second": round(offered),
        "ends": ends,
        "answers": answers,
        "machine": about,
        **figures,
    }


def _roll(given: argparse.Namespace, parts: Pipeline, config: Path, services: Services) -> dict[str, int]:
    """Another worker and another service each time, ended in order and killed in turn: how often each exit code."""
    began, ends, workers = time.monotonic(), Counter[str](), parts.filters
    for turn in itertools.count(1):
        due = began + turn * given.every
        if due > began + given.seconds:
            return dict(sorted(ends.items()))
        time.sleep(max(0.0, due - time.monotonic()))
        number = signal.SIGKILL if turn // len(workers) % 2 else signal.SIGTERM
        place = turn % len(workers)
        os.kill(workers[place].pid, number)
        ends[f"worker {workers[place].stop()}"] += 1
        workers[place] = Child("filter", product("filter", config, parts.shards.addresses))
        ends[f"service {services.restart(turn, number)}"] += 1
    raise AssertionError("never here")


class Services:
    """Some services, each with a port that it keeps when it is replaced."""

    def __init__(self, count: int, directory: Path, addresses: Sequence[Address]) -> None:
        self._commands: list[list[str]] = []
        self.asks: list[Ask] = []
        for port in free_ports(count):
            config = directory / f"serve-{port}.toml"
            config.write_text(f"[serve]\nbind = '127.0.0.1:{port}'\n")
            self._commands.append(product("serve", config, addresses))
            self.asks.append(surfaces.http_surface(port, _PATHS))
        self._running = [Child("service", command) for command in self._commands]

    def restart(self, turn: int, number: int) -> int:
        """Replace one of them; its exit code."""
        place = turn % len(self._running)
        os.kill(self._running[place].pid, number)
        code = self._running[place].stop()
        self._running[place] = Child("service", self._commands[place])
        return code

    def stop(self) -> None:
        """End all."""
        for child in self._running:
            child.stop()


@contextlib.contextmanager
def _asking(asks: Sequence[Ask], said: list[Said]) -> Iterator[None]:
    """Each is asked all the time, by a thread of its own, until the block ends."""
    over = threading.Event()

    def keep_asking(ask: Ask) -> None:
        while not over.wait(_TURN_SECONDS):
            said.append(ask())

    threads = [threading.Thread(target=keep_asking, args=(ask,)) for ask in asks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _parser() -> argparse.ArgumentParser:
    made = outcome.parser(
        "rolling",
        "Emulated hosts send, workers smooth, services and readers are asked; again and again a worker and a service "
        "are replaced, ended in order and killed in turn. The books must balance, the values be those of a scalar "
        "model, and no answer may call a live host down, or be calm where nobody is seen.",
        "examples:\n  python -m experiments.rolling --seconds 180\n  python -m experiments.rolling --every 0.5",
        hosts=100, entities=101, metrics=5, seconds=60.0,
    )  # fmt: skip
    made.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds between two restarts (default 1)")
    made.add_argument("--filters", type=int, default=4, metavar="N", help="workers (default 4)")
    made.add_argument("--services", type=int, default=4, metavar="N", help="services (default 4)")
    return made


def _text(document: dict[str, Any]) -> list[str]:
    names = ("samples_per_second", "samples_made", "samples_applied", "samples_lost", "samples_pending",
             "samples_duplicated", "unbalanced_accounts", "mismatches", "missed_ticks", "frames_resent")  # fmt: skip
    lines = [f"{name:<24}{document[name]:>14,}" for name in names]
    lines += [f"ended with {code:<13}{count:>14}" for code, count in document["ends"].items()]
    lines.append(f"{'surface':<26}{'answers':>8}{'down':>6}{'calm':>6}  last word")
    for surface, row in sorted(document["answers"].items()):
        lines.append(f"{surface:<26}{row['answers']:>8}{row['down']:>6}{row['calm']:>6}  {row['told'][:150]}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
