"""Line fuzzer: mutated vmstat and pidstat lines through parsers and checks.

They also go through the timeline, printing and packing.
"""

from __future__ import annotations

import io
import json
from random import Random
from typing import NamedTuple

from acquisition.model.codes import CODE_MASK, NAMES
from experiments.fuzz import corpus
from experiments.fuzz.guard import bounded
from experiments.fuzz.line_oracle import PidstatOracle, VmstatOracle
from experiments.fuzz.mutations import mutate_capture
from probes.captures.replay import (
    PIDSTAT_SET,
    VMSTAT_SET,
    Machine,
    Replayed,
    documents,
    replay_pidstat,
    replay_vmstat,
    summary,
)
from probes.checks import build_pipeline
from probes.loop.module import pack
from probes.tools.pidstat import PidstatParser
from probes.tools.vmstat import VmstatParser

KIND = "lines"
_ROWS = 60  #: a capture is continued up to this many lines with rows drawn from itself
_CAPTURES = (1, 1, 1, 4, 50)  #: per session: a tool running for long is one parser over many captures
_CPU_SECONDS, _CPU_PER_LINE = 2.0, 0.002
_MACHINE = Machine("fuzzed", 0, 0.0)


class Session(NamedTuple):
    """One case: the supposed output of a tool, and its number of mutated lines."""

    tool: str
    data: bytes
    mutated: int


class Outcome(NamedTuple):
    """Outcome of a case: lines read, rows returned, their VALID samples and all samples."""

    lines: int
    readings: int
    valid: int
    samples: int


def session(seed: int, number: int) -> Session:
    """Case ``number``: a function of the seed."""
    random = Random(f"{seed}/{KIND}/{number}")
    tool = ("vmstat", "pidstat")[random.getrandbits(1)]
    captures, others = corpus.captures(tool), corpus.all_lines()
    lines: list[bytes] = []
    mutated = 0
    for _ in range(random.choice(_CAPTURES)):
        chosen = list(random.choice(captures))
        chosen += random.choices(chosen, k=max(0, _ROWS - len(chosen)))
        made, count = mutate_capture(chosen, others, random)
        lines += made
        mutated += count
    end = b"\n" if random.getrandbits(1) else b""
    return Session(tool, b"\n".join(lines) + end, mutated)


def dump(case: Session) -> bytes:
    """The input, to be saved: ``shardpulse replay`` takes it unchanged."""
    return case.data


def run(case: Session) -> Outcome:
    """Raises Unsound, Hang, or any exception of the product: all of them are bugs."""
    lines = case.data.split(b"\n")
    with bounded(_CPU_SECONDS + _CPU_PER_LINE * len(lines)):
        parser: VmstatParser | PidstatParser
        oracle: VmstatOracle | PidstatOracle
        data = io.BytesIO(case.data)
        if case.tool == "vmstat":
            parser, oracle = VmstatParser(VMSTAT_SET), VmstatOracle(lines, VMSTAT_SET.metrics)
            found = replay_vmstat(data, parser, build_pipeline(VMSTAT_SET), _MACHINE, 1.0)
        else:
            parser, oracle = PidstatParser(PIDSTAT_SET), PidstatOracle(lines, PIDSTAT_SET.metrics)
            found = replay_pidstat(data, parser, build_pipeline(PIDSTAT_SET), _MACHINE, 1.0)
        tally = _Tally()
        for replayed in found:
            oracle.judge(replayed.reading, parser.lines)
            tally.add(replayed)
        return tally.outcome(case.tool, parser)


class _Tally:
    """Counts, and handles readings as the product does: packs them for frames, prints some."""

    def __init__(self) -> None:
        self._readings = self._valid = self._samples = 0
        self._marks = bytearray(256)

    def add(self, replayed: Replayed) -> None:
        reading = replayed.reading
        self._readings += 1
        self._samples += len(reading.codes)
        self._valid += reading.codes.count(0)
        pack(reading.values)
        for code in set(reading.codes):
            self._marks[code] = 1
        if self._readings % 16 == 1:
            for document in documents(replayed):
                json.dumps(document, allow_nan=False)

    def outcome(self, tool: str, parser: VmstatParser | PidstatParser) -> Outcome:
        unknown = [code for code, seen in enumerate(self._marks) if seen and (code & CODE_MASK) >= len(NAMES)]
        if unknown:
            raise AssertionError(f"codes that do not exist: {unknown}")
        summary(tool, parser, {})
        return Outcome(parser.lines, self._readings, self._valid, self._samples)
