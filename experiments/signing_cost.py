"""``python -m experiments.signing_cost``: CPU time that signatures add to a frame, in the probe and in the filter.

    python -m experiments.signing_cost                          # 1, 30 and 101 entities x 15 metrics
    python -m experiments.signing_cost --entities 101 --repeats 15

One process, no shards: a writer offers a frame and makes its command (``Writer.offer``, ``InFlight.take``), a partition
judges entries that follow each other (``Partition.take``: verifying and what is asked of every frame, without smoothing
and committing). With and without signatures in turn, so that whatever else the machine does falls on both; each figure
is the least of all rounds.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from acquisition.errors import UsageError
from acquisition.link.resp import Address
from acquisition.model.metric import resource_set_id
from acquisition.outbox.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.wire import signature
from acquisition.wire.frame import Samples
from acquisition.wire.signature import Verifier
from experiments.harness import outcome
from experiments.processes.program import program
from filters.worker.partition import Partition
from filters.worker.settings import FilterSettings
from filters.worker.step.native import STEP

_MASTER, _HOST, _TAG = bytes(range(32)), 7, "0"
_SET = resource_set_id("vms")
_FRAMES = 200  #: of a round
_SIDES = {"plain": False, "signed": True}
_EXAMPLES = """\
examples:
  python -m experiments.signing_cost
  python -m experiments.signing_cost --entities 101 --repeats 15"""

Entries = list[tuple[bytes, list[bytes]]]


@program("signing_cost")
def main(argv: list[str]) -> int:
    """Measure, and print."""
    parser = outcome.parser("signing_cost", (__doc__ or "").partition("\n\n")[2], _EXAMPLES, metrics=15, repeats=25)
    parser.add_argument("--entities", default="1,30,101", metavar="N,...", help="rows of a frame (default %(default)s)")
    given = parser.parse_args(argv)
    outcome.require_positive(given, "metrics", "repeats")
    try:
        sizes = [int(size) for size in given.entities.split(",")]
    except ValueError as error:
        raise UsageError(f"--entities: {error}") from error
    rows = [_row(size, given.metrics, given.repeats) for size in sizes]
    return outcome.conclude(outcome.document("signing_cost", argv, [], {"rows": rows}, []), given, _text)


def _row(entities: int, metrics: int, repeats: int) -> dict[str, Any]:
    best: dict[str, float] = {}
    size = 0
    for _ in range(repeats):
        for side, signs in _SIDES.items():
            took, entries = _sending(_samples(entities, metrics), signs)
            best[f"probe_{side}_us"] = min(best.get(f"probe_{side}_us", took), took)
            took = _judging(entries, signs)
            best[f"filter_{side}_us"] = min(best.get(f"filter_{side}_us", took), took)
            size = len(entries[0][1][1])
    return {"entities": entities, "bytes": size} | {name: round(took, 2) for name, took in best.items()}


def _samples(entities: int, metrics: int) -> Iterator[Samples]:
    ids = struct.pack(f"<{entities}Q", *range(entities))
    cells = entities * metrics
    for tick in range(_FRAMES):
        values = struct.pack(f"<{cells}f", *[tick + 0.5] * cells)
        yield Samples(_SET, 1, entities, metrics, 1.0, tick, 1e9 + tick, 1.0 * tick, ids, values)


def _sending(made: Iterator[Samples], signs: bool) -> tuple[float, Entries]:
    """Microseconds of CPU time for a frame in a writer that is connected, and what it sends as entries of a stream."""
    offered = list(made)
    outbox = Outbox(None)
    writer = Writer(_HOST, "a host", [Address("127.0.0.1", 1)], None, outbox)
    if signs:
        writer.sign_with(signature.signer(signature.host_key(_MASTER, _HOST)))
    flight = writer._in_flight
    flight.begin(_TAG)
    for resource_set in (_SET,):
        outbox.window(resource_set).synchronize(None)
    commands: list[list[bytes]] = []

    def send() -> None:
        for one in offered:
            writer.offer(one)
            parts: list[bytes] = []
            flight.take(parts, time.monotonic())
            commands.append(parts)
            flight.bytes = 0  # as if each was acknowledged at once

    took = _timed(send)
    writer.close()
    return took, [(b"%d-0" % number, _fields(b"".join(parts))) for number, parts in enumerate(commands, 1)]


def _fields(command: bytes) -> list[bytes]:
    """The fields and values of an XADD."""
    words, rest = [], command.partition(b"\r\n")[2]
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        length = int(head[1:])
        words.append(rest[:length])
        rest = rest[length + 2 :]
    return words[3:]


def _judging(entries: Entries, signs: bool) -> float:
    """Microseconds of CPU time for an entry in a partition, which knows its host."""
    settings = FilterSettings(verifier=Verifier([_MASTER]) if signs else None)
    partition = Partition(0, _TAG, 1, settings, STEP)
    partition.take(entries[:1])
    rest = entries[1:]

    def judge() -> None:
        for first in range(0, len(rest), 10):  # as a paced filter reads them
            partition.take(rest[first : first + 10])

    took = _timed(judge) * _FRAMES / len(rest)
    if partition.rejected or sum(state.track.frames for state in partition.states.values()) != len(entries):
        raise AssertionError("frames were not taken")
    return took


def _timed(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) / _FRAMES * 1e6


def _text(document: dict[str, Any]) -> list[str]:
    return [
        f"{row['entities']:>4} entities, {row['bytes']:>5} bytes: "
        + ", ".join(
            f"{part} {row[f'{part}_plain_us']:.2f} µs, signed {row[f'{part}_signed_us']:.2f} "
            f"(+{row[f'{part}_signed_us'] - row[f'{part}_plain_us']:.2f})"
            for part in ("probe", "filter")
        )
        for row in document["rows"]
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
