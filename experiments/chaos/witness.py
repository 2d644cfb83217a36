"""Witness: asks all readers during faults and judges their answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from acquisition.snapshot import SnapshotReader
from experiments.chaos import surfaces
from experiments.chaos.answers import Said, Truth, summary
from experiments.chaos.fault_runner import Course
from experiments.chaos.faults import KINDS
from experiments.chaos.installation import Installation
from experiments.chaos.options import Options
from experiments.emulation.workload import host_name
from experiments.testbed import Host

_TURN_SECONDS = 0.2
_SLOWEST_COMMAND = 3.0  #: seconds from the start of a command to its reading, on a busy machine
#: Without /v1/heat, which needs hosts' own figures.
_PATHS = ("/v1/hosts?fields=state", "/v1/snapshot?fields=mean", "/v1/hot", "/v1/moves")

Answers = Callable[[], Iterable[Said]]


class Witness:
    """A context manager: each surface is queried by a thread of its own, on the host of the query services. ``said``
    are the answers, each at its time of CLOCK_MONOTONIC."""

    def __init__(self, installation: Installation) -> None:
        self.said: list[Said] = []
        self._over = threading.Event()
        self._readers = (installation.reader(), installation.reader())
        self._threads = [
            threading.Thread(target=self._keep_asking, args=(installation.spare, answers), daemon=True)
            for answers in _answers(installation, self._readers, self._over)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the queries; calling it again is harmless."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        for reader in self._readers:
            reader.close()

    def _keep_asking(self, host: Host, answers: Answers) -> None:
        with host.inside():
            while not self._over.wait(_TURN_SECONDS):
                for said in answers():
                    self.said.append(said._replace(at=time.monotonic()))


def _answers(
    installation: Installation, readers: tuple[SnapshotReader, SnapshotReader], over: threading.Event
) -> Iterator[Answers]:
    own_figures = installation.options.own_figures
    asks = surfaces.reader_surfaces(*readers, installation.reader)
    paths = surfaces.PATHS if own_figures else _PATHS
    asks += [surfaces.http_surface(port, paths) for port in installation.ports]
    if own_figures:
        asks.append(surfaces.command_surface(installation.reader_config, installation.cluster.addresses))
        yield lambda: surfaces.stream_events(installation.ports[0], over.is_set)
    for ask in asks:
        yield lambda ask=ask: [ask()]  # type: ignore[misc]


def judge(said: Sequence[Said], courses: Sequence[Course], options: Options) -> tuple[dict[str, Any], list[str]]:
    """Answers, and false ones among them, by kind of fault ("peace" before the first) and surface."""
    made = sorted((course for course in courses if course.made), key=lambda course: course.made)
    by_kind: dict[str, list[tuple[Said, Truth]]] = {}
    for answer in sorted(said, key=lambda answer: answer.at):
        while len(made) > 1 and made[1].made <= answer.at:
            del made[0]
        course = made[0] if made and made[0].made <= answer.at else None
        since = answer._replace(at=answer.at - course.made) if course else answer
        pairs = by_kind.setdefault(course.fault.kind if course else "peace", [])
        pairs.append((since, _truth(course, options)))
    found = {kind: summary(pairs) for kind, pairs in by_kind.items()}
    wrong = [
        f"{kind}: {surface}: {row['down']} answers call live hosts down, in {row['calm']} blindness is calm"
        for kind, rows in found.items()
        for surface, row in rows.items()
        if row["down"] or row["calm"]
    ]
    return found, wrong


def _truth(course: Course | None, options: Options) -> Truth:
    """Truth from the beginning of a fault until the next one begins."""
    if course is None:
        return Truth(options.hosts)
    kind, gone, blind = KINDS[course.fault.kind], frozenset[str](), None
    if kind.gone:
        gone = frozenset(map(host_name, range(course.fault.target, options.hosts, options.generators)))
    if kind.blind_after:
        blind = (kind.blind_after, course.healing - course.made - _SLOWEST_COMMAND)
    return Truth(options.hosts, gone, blind)
