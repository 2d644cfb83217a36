"""Ingestion benchmark: samples per second, freshness, cost, no loss."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from acquisition.errors import UsageError
from experiments.harness import outcome
from experiments.harness.ingestion import measure
from experiments.harness.options import Options
from experiments.harness.pipeline import INPUTS
from experiments.harness.quantiles import medians
from experiments.processes import access
from experiments.processes.needs import require
from experiments.processes.profiler import format_profile
from experiments.processes.program import program

_DESCRIPTION = """\
Measure the flow from emulated probes to readable smoothed state on this machine: the product's own
frame encoder, writer, outbox, pinned shards, filter and snapshot reader. Every value changes in every
frame, 1% of the samples are invalid, VMs come and go, hosts sample at the product's hashed phases.
At the end everything is drained, the books must balance, and random entities must equal a
scalar model in plain Python, or the run fails with exit code 1."""

_EXAMPLES = """\
examples:
  python -m experiments.ingest --hosts 100 --entities 101 --metrics 5 --rate 1 --seconds 600
      the paper's data center: 100 hosts of 100 VMs, 50,500 samples/s, for ten minutes
  python -m experiments.ingest --hosts 100 --entities 100 --metrics 15 --rate max --warmup 10 --seconds 15 --repeats 5
      the limit: a closed loop that offers no more than is smoothed
  python -m experiments.ingest --hosts 10000 --entities 101 --metrics 15 --rate 1 --seconds 60
      a million VMs, 15.15 million samples/s, 10,000 connections
  python -m experiments.ingest --hosts 10000 --entities 101 --metrics 15 --lean --position-interval 10 --retention 1 \
      --warmup 20 --drain 120 --seconds 60 --tls
      the same over TLS, lean hosts"""

_HEADLINES = (
    "samples_offered_per_second",
    "samples_stored_per_second",
    "samples_smoothed_per_second",
    "frames_per_second",
    "backlog_samples",
    "samples_made",
    "samples_invalid",
    "samples_lost",
    "samples_duplicated",
    "missed_ticks",
)


@program("ingest")
def main(argv: list[str]) -> int:
    """Measure, print, and report whether the measurement can be trusted."""
    options, given = parse(argv)
    runs = [measure(options) for _ in range(given.repeats)]
    document = summary(argv, runs)
    return outcome.conclude(document, given, format_run)


def summary(argv: list[str], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Document of all runs: the medians of their figures, whether all passed, and the runs."""
    figures = medians([run["figures"] for run in runs])
    failures = [failure for run in runs for failure in run["failures"]]
    return {
        **outcome.document("ingest", argv, failures, figures),
        "repeats": len(runs),
        **{name: runs[0][name] for name in ("machine", "profiles", "shard_commands")},
        "runs": runs if len(runs) > 1 else [],
    }


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = outcome.parser(
        "ingest", _DESCRIPTION, _EXAMPLES,
        hosts=100, entities=101, metrics=15, seconds=10.0, shards=0, repeats=1, seed=1,
    )  # fmt: skip
    add = made.add_argument

    def seconds(name: str, default: float | None, told: str) -> None:
        add(f"--{name}", dest=f"{name}_seconds", type=float, default=default, metavar="S", help=told)

    add(
        "--rate",
        type=_rate,
        default="1",
        metavar="HZ|max",
        help="frames/s of a host, or max: a closed loop (default 1)",
    )
    add("--warmup", type=float, default=3.0, metavar="S", help="time before the window (default 3)")
    add("--filters", type=int, default=1, metavar="K", help="filter processes that share the partitions (default 1)")
    add("--generators", type=int, default=0, metavar="N", help="generator processes (default: one per 15,000 hosts)")
    add("--invalid", type=float, default=0.01, metavar="SHARE", help="share of invalid samples (default 0.01)")
    add("--churn", type=float, default=0.1, metavar="SHARE", help="share of the VMs replaced in an hour (default 0.1)")
    add("--check", type=int, default=100, metavar="N", help="random entities compared at the end (default 100)")
    add("--tau", type=float, default=5.0, metavar="S", help="time constant of filter and scalar model (default 5)")
    seconds("linger", None, "how long the filter gathers frames (default: the product's)")
    seconds("retention", None, "how long raw frames are kept (default: the product's)")
    seconds("held", 10.0, "what an emulated outbox holds (default 10)")
    seconds("drain", 30.0, "longest wait for what is pending (default 30)")
    seconds("joining", 0.0, "over which hosts begin, one after the other (default 0: all at once)")
    add("--inputs", choices=INPUTS, default="shipped", help="decision inputs: as shipped, off, or full for VMs too")
    add("--filter-config", default="", metavar="FILE", help="configuration of the filter, instead of one from --tau")
    add(
        "--outstanding", dest="outstanding_frames", type=int, default=0, metavar="N",
        help="most frames of a host on their way in the closed loop (default: 12,000 of all)",
    )  # fmt: skip
    add("--watched", type=int, default=32, metavar="N", help="hosts that the freshness reader watches (default 32)")
    add("--poll-ms", type=float, default=5.0, metavar="MS", help="how often it looks (default 5)")
    add("--position-interval", type=float, default=2.0, metavar="S", help="of the writers (default: the product's 2)")
    add("--lean", action="store_true", help="emulated hosts without an outbox: cheaper, and any error fails the run")
    add("--pin", dest="pins", type=_pins, default="", metavar="ROLE=CORE,...", help="pin generator or filter")
    add("--tls", action="store_true", help="shards that speak TLS only, with a user for each part")
    add("--overload", action="store_true", help="losses are what is measured: they do not fail the run")
    add("--profile", action="store_true", help="print where generator and filter spend their CPU time")
    return made


def parse(argv: list[str]) -> tuple[Options, argparse.Namespace]:
    """Options of a run, and of the program around it. Raises UsageError."""
    given = parser().parse_args(argv)
    options = outcome.filled(Options, given)
    outcome.require_positive(
        given, "hosts", "entities", "metrics", "seconds", "filters", "repeats", "tau", "watched", "poll_ms"
    )
    if not 0.0 <= options.invalid <= 1.0:
        raise UsageError("--invalid is a share between 0 and 1")
    if options.tls:
        if options.filter_config:
            raise UsageError("--tls writes the configuration of the filter itself: leave out --filter-config")
        require(access.missing)
    return options, given


def _rate(text: str) -> float:
    if text == "max":
        return 0.0
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.0 < rate <= 1000.0:
        raise UsageError(f"--rate {text!r} is neither max nor a frequency up to 1000 Hz")
    return rate


def _pins(text: str) -> dict[str, int]:
    pins = {}
    for part in filter(None, text.split(",")):
        role, _, core = part.partition("=")
        if role not in ("generator", "filter") or not core.isdigit():
            raise UsageError(f"--pin {part!r} is not generator=CORE or filter=CORE")
        pins[role] = int(core)
    return pins


def format_run(document: dict[str, Any]) -> list[str]:
    """The summary document as text."""
    rows = [f"medians of {document['repeats']} runs", ""] if document["repeats"] > 1 else []
    rows += [f"{name:30} {document[name]:>16,}" for name in _HEADLINES]
    rows.append(_row("freshness_ms", document["freshness_ms"], "{:,.1f}"))
    rows.append(_row("cpu_cores", document["cpu_cores"], "{:.3f}"))
    rows.append(_row("cpu_seconds_per_million_samples", document["cpu_seconds_per_million_samples"], "{:.4f}"))
    rows.append(_row("memory_bytes", document["memory_bytes"], "{:,}"))
    rows.append(
        f"scalar model: {document['checked_samples']} samples of {document['checked_entities']} entities, "
        f"{document['mismatches']} differ, worst {document['worst_difference']:.3f} of what is allowed"
    )
    if document["profiles"]:
        rows.append("commands that the shards executed (without their input and output)")
        rows += [
            f"  {figures['cores']:.4f} cores  {figures['calls_per_second']:>10,.0f}/s  {name}"
            for name, figures in document["shard_commands"].items()
        ]
    return rows + [format_profile(role, profile) for role, profile in document["profiles"].items()]


def _row(name: str, values: dict[str, float | None], pattern: str) -> str:
    shown = (f"{key} {'-' if value is None else pattern.format(value)}" for key, value in values.items())
    return f"{name:30} {'  '.join(shown)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
