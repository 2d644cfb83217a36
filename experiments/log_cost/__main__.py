"""Log statement cost per probe tick and per filter turn.

    python -m experiments.log_cost --save log-cost             # ten rounds of 1,000 iterations: a quarter of an hour
    python -m experiments.log_cost --rounds 3 --iterations 200 --loops filter

The measurement of "Improving libvirt logging performance" (D. Berrangé, 2014), where log statements that nobody read
took 97% of the CPU time of a loop over 500 virtual machines, on our loops: a tick of the probe over 500 VMs, whose
files lie in a directory like /proc (sources, checks, frame, outbox, sending), and a turn of the filter over a frame of
500 VMs (reading, smoothing, committing). Four variants: ``none`` is the product without a single statement at info or
debug, taken out of its source as it is loaded; ``shipped`` says nothing at these levels; ``info`` and ``debug`` write
to a file.

In each round every variant is a fresh process with a shard of its own; they take turns, 10 iterations each, in an order
that changes. CPU time is that of the process within the iterations. The ratio of a round is the median of those of its
hundred slices to the slice of ``none`` beside each. The 95% interval is that of the mean of the rounds' ratios
(Student's t). It has passed when the upper end of shipped is below 1.02.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from experiments.harness import outcome
from experiments.harness.intervals import interval
from experiments.log_cost.loops import LEVELS, LOOPS, NONE, guests
from experiments.processes import needs
from experiments.processes.program import program

VARIANTS = (NONE, *LEVELS)
MOST = 1.02
_SLICE = 10
_WARM_UP = 150  #: iterations until the windows and rings of the filter are full


class Child:
    """One variant of a loop in a process of its own; ``slices`` are the CPU seconds of each turn."""

    def __init__(self, loop: str, variant: str, vms: int, directory: Path, stack: ExitStack) -> None:
        directory.mkdir()
        (directory / "proc").symlink_to("../proc")
        self._said = directory / "said"
        said, pipe = stack.enter_context(self._said.open("wb")), subprocess.PIPE
        words = [sys.executable, "-m", "experiments.log_cost.loops", loop, variant, str(vms), str(directory)]
        alike = os.environ | {"PYTHONHASHSEED": "0"}
        self._process = stack.enter_context(
            subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=said, text=True, env=alike)
        )
        assert self._process.stdin is not None
        stack.callback(self._process.stdin.close)
        self.slices: list[float] = []

    def begin(self) -> int:
        """Wait until it is ready; the number of statements removed from it."""
        removed = int(self._answer())
        self.turn(_WARM_UP)
        self.slices.clear()
        return removed

    def turn(self, iterations: int) -> None:
        """Run this many more iterations."""
        assert self._process.stdin is not None
        print(iterations, file=self._process.stdin, flush=True)
        self.slices.append(float(self._answer()))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a loop has ended: {self._said.read_text()[-2000:]}")
        return line


class Round(NamedTuple):
    """Of each variant: CPU milliseconds per iteration, and the median of the ratios of its slices to those of none."""

    milliseconds: dict[str, float]
    to_none: dict[str, float]


def measure_round(loop: str, vms: int, iterations: int, number: int) -> Round:
    """One round of a loop."""
    size = min(_SLICE, iterations)
    with tempfile.TemporaryDirectory(prefix="log-cost-", dir=_memory()) as name, ExitStack() as stack:
        guests(Path(name), vms)
        children = {each: Child(loop, each, vms, Path(name) / each, stack) for each in VARIANTS}
        removed = {each: child.begin() for each, child in children.items()}
        if not removed.pop(NONE) or any(removed.values()):
            raise RuntimeError(f"statements were taken out of {removed}")
        for turn in range(iterations // size):
            for place in range(len(VARIANTS)):
                children[VARIANTS[(place + turn + number) % len(VARIANTS)]].turn(size)
        slices = {each: child.slices for each, child in children.items()}
    milliseconds = {each: round(1000.0 * statistics.fmean(some) / size, 5) for each, some in slices.items()}
    ratios = {each: [a / b for a, b in zip(slices[each], slices[NONE], strict=True)] for each in VARIANTS}
    return Round(milliseconds, {each: round(statistics.median(some), 5) for each, some in ratios.items()})


def _memory() -> str | None:
    """Directory in memory: like those of /proc, its files take no disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def summary(rounds: Sequence[Round]) -> dict[str, Any]:
    """Summary of one loop: medians in milliseconds, and the ratios to none."""
    return {
        "ms_per_iteration": {
            name: round(statistics.median([each.milliseconds[name] for each in rounds]), 4) for name in VARIANTS
        },
        "to_none": {
            name: interval([each.to_none[name] for each in rounds])._asdict() for name in VARIANTS if name != NONE
        },
        "rounds": [each._asdict() for each in rounds],
    }


def _text(found: dict[str, Any]) -> list[str]:
    lines = []
    for loop, row in found["loops"].items():
        lines.append(f"{loop}, {found['vms']} VMs, {found['iterations']} iterations, {len(row['rounds'])} rounds:")
        for name, value in row["ms_per_iteration"].items():
            ratio = row["to_none"].get(name)
            told = f"  {ratio['mean']:.3f} of none ({ratio['low']:.3f} to {ratio['high']:.3f})" if ratio else ""
            lines.append(f"  {name:<8} {value:8.3f} ms{told}")
    return lines


@program("log_cost")
def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = outcome.parser("log_cost", __doc__ or "", "", "NAME.json and NAME.png")
    parser.add_argument("--vms", type=int, default=500, metavar="N", help="virtual machines (default %(default)s)")
    parser.add_argument("--iterations", type=int, default=1000, metavar="N", help="per round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="at least 2 (default %(default)s)")
    parser.add_argument("--loops", nargs="+", choices=[*LOOPS], default=[*LOOPS], help="which (default both)")
    options = parser.parse_args(argv)
    outcome.require_positive(options, "vms", "iterations", "rounds")
    if options.save:
        needs.require(needs.plots)
    measured = {
        loop: summary([measure_round(loop, options.vms, options.iterations, n) for n in range(max(2, options.rounds))])
        for loop in options.loops
    }
    missed = [
        f"{loop}: shipped may take {row['to_none']['shipped']['high']:.3f} of none, {MOST} is the most"
        for loop, row in measured.items() if row["to_none"]["shipped"]["high"] >= MOST
    ]  # fmt: skip
    found = {"loops": measured, "vms": options.vms, "iterations": options.iterations}
    document = outcome.document("log_cost", argv, [], found, missed)
    if options.save:
        from experiments.log_cost.plot import draw

        draw(document, outcome.RESULTS / f"{options.save}.png", MOST)
    return outcome.conclude(document, options, _text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
