"""``python -m experiments.overload``: overload is chosen, not suffered."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments.harness import outcome
from experiments.overload.run import run
from experiments.overload.scenario import Scenario
from experiments.overload.verdict import judge
from experiments.processes import needs
from experiments.processes.program import program

_DESCRIPTION = """\
Offer more than the filter can take and look at what schedulers could read meanwhile. Some hosts talk ten
times as much while the load is high. The filter is the product's own, on a machine of a stated
capacity, so that the run means the same on any machine.

The verdict: the newest readable samples of every host stay younger than twice the time after which
probes shed; the talkative hosts shed, the quiet ones do not; what was shed is what is counted as
lost, and nothing else is; everything returns to normal by itself."""

_EXAMPLES = """\
examples:
  python -m experiments.overload --json --save overload
      twice as much as can be taken for a minute; writes overload.json and .png to experiments/results
  python -m experiments.overload --capacity 0.33
      three times as much"""


@program("overload")
def main(argv: list[str]) -> int:
    """Run, print, save; 0 when the verdict holds."""
    scenario, given = parse(argv)
    if given.save:
        needs.require(needs.plots)
    with tempfile.TemporaryDirectory(prefix="shardpulse-overload-") as name:
        rows, final = run(scenario, Path(name))
    figures = judge(scenario, rows, final)
    document = outcome.document(
        "overload", argv, figures["failures"], {**figures, "scenario": scenario._asdict(), "rows": rows}
    )
    if given.save:
        from experiments.overload.plot import draw

        draw(scenario, rows, outcome.RESULTS / f"{given.save}.png")
    return outcome.conclude(document, given, _text)


def _text(document: dict[str, Any]) -> list[str]:
    """All but the figures of every second."""
    return [json.dumps({key: value for key, value in document.items() if key != "rows"}, indent=1)]


def parse(argv: list[str]) -> tuple[Scenario, argparse.Namespace]:
    """The scenario and the options around it. Raises UsageError."""
    made = outcome.parser("overload", _DESCRIPTION, _EXAMPLES, "NAME.json and NAME.png")
    default = Scenario()
    add = made.add_argument
    add("--quiet", type=int, default=default.quiet, metavar="N", help="hosts at 1 Hz (default %(default)s)")
    add("--talkative", type=int, default=default.talkative, metavar="N", help="hosts at 10 Hz (default %(default)s)")
    add("--entities", type=int, default=default.entities, metavar="N", help="rows of a frame (default %(default)s)")
    add("--capacity", type=float, default=default.capacity, help="part of the high load (default %(default)s)")
    add("--seconds", type=float, default=default.high_seconds, metavar="S", help="of high load (default %(default)s)")
    add("--calm", type=float, default=default.calm_seconds, metavar="S", help="before it (default %(default)s)")
    add("--after", type=float, default=default.after_seconds, metavar="S", help="after it (default %(default)s)")
    add("--shed-after", type=float, default=default.shed_after, metavar="S", help="of the probes (default %(default)s)")
    given = made.parse_args(argv)
    scenario = Scenario(
        quiet=given.quiet,
        talkative=given.talkative,
        entities=given.entities,
        capacity=given.capacity,
        calm_seconds=given.calm,
        high_seconds=given.seconds,
        after_seconds=given.after,
        shed_after=given.shed_after,
        position_interval=min(2.0, 0.4 * given.shed_after),
    )
    outcome.require_positive(
        given, "quiet", "talkative", "entities", "capacity", "seconds", "calm", "after", "shed_after"
    )
    return scenario, given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
