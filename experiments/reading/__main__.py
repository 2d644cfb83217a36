"""Reading latency: a whole snapshot, and the list of hot hosts."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from acquisition.errors import UnavailableError
from acquisition.snapshot import SnapshotReader
from experiments.emulation.host_figures import SET_ID, host_figures
from experiments.harness import outcome, pipeline, usage
from experiments.harness.options import Options
from experiments.processes.control import Child, python
from experiments.processes.program import program
from experiments.processes.waiting import eventually, pause
from experiments.reading.client import HOT_LIST, QUESTIONS, SNAPSHOT

_WARM_UP = 45.0  #: the windows of the rules must be full
_ANSWER_SECONDS = 30.0
_DRAIN_SECONDS = 60
_LEAN_FROM = 1000  #: hosts from which the emulated ones are lean
_MOST_P99 = {SNAPSHOT: 5.0, HOT_LIST: 1000.0}  #: milliseconds, at 100 and at 10,000 hosts
_HOT_EVERY = 20
_MOST_UNCHANGED_P99 = 0.5  #: milliseconds
_MOST_RATIO = 2.0  #: of a reading with a new tick to a pipelined GET of the same bytes, medians

_DESCRIPTION = """\
Time the readings of one Python client, a process of its own, while the whole pipeline runs: emulated
hosts with their VMs at 1 Hz and the figures of the hosts themselves, real shards, the real filter.
`snapshot` is everything, coherent, of one SnapshotReader: readings that bring a new tick, with every plane touched as
an array, five at once after each, which mostly find nothing new, and as references a pipelined GET of the same records,
and one of the commit ids (ids), which is what a reading that finds nothing new asks for; `hot` is the list of hot
hosts, one in twenty, read and judged as `shardpulse query hot` does, with the reasons of the first ten, and now and
then with everything that is said of all of them (described). With --still the data center stands still after it has
been filled, and the client's clock with it: what the reading costs where the client does not share two cores with the
whole pipeline and its emulated hosts."""

_EXAMPLES = """\
examples:
  python -m experiments.reading --question snapshot --hosts 100
  python -m experiments.reading --question hot --hosts 10000 --rate 0.2 --still
  python -m experiments.reading --question hot --hosts 10000 --rate 0.2 --json --save reading-hot
      a million VMs, sampled every five seconds; their hosts every second

targets: p99 of a snapshot of 100 hosts that brings a new tick 5 ms, and 2 times the reference; of one that finds
nothing new 0.5 ms; of a hot list of 10,000 hosts 1 s"""


@program("reading")
def main(argv: list[str]) -> int:
    """Measure, print, and report whether the target is met."""
    given = _parse(argv)
    figures = [measure(given) for _ in range(given.repeats)]
    median = sorted(figures, key=lambda each: each["milliseconds"]["p99"])[len(figures) // 2]
    failures = _failures(given, median)
    document = outcome.document("reading", argv, failures, {"median": median, "runs": figures})
    return outcome.conclude(document, given, _format)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """One run on fresh shards. Raises ShardpulseError if a part does not start, or ends."""
    options = Options(
        hosts=given.hosts,
        entities=given.entities,
        metrics=given.metrics,
        rate=given.rate,
        shards=given.shards,
        lean=given.hosts >= _LEAN_FROM,
        retention_seconds=1.0,
        position_interval=10.0,
        watched=1,
    )
    with tempfile.TemporaryDirectory(prefix="shardpulse-reading-") as name, contextlib.ExitStack() as stack:
        parts = stack.enter_context(pipeline.running(options, Path(name)))
        addresses = [str(address) for address in parts.shards.addresses]
        client = stack.enter_context(Child("client", python("experiments.reading.client")))
        hot = max(1, given.hosts // _HOT_EVERY)
        hosts = stack.enter_context(host_figures(addresses, given.hosts, hot, options.seed))
        parts.tell("start")
        parts.run(given.warm_up)
        client.send({"shards": addresses, "question": given.question, "seed": options.seed})
        client.receive(_ANSWER_SECONDS)
        return _readings(parts, hosts, client, given)


def _readings(parts: pipeline.Pipeline, hosts: Child, client: Child, given: argparse.Namespace) -> dict[str, Any]:
    order: dict[str, Any] = {"do": "read", "seconds": given.seconds, "pause": given.pause}
    if given.still:
        hosts.send({"do": "stop"})
        hosts.receive(_ANSWER_SECONDS)
        parts.finish()
        order["now"] = _newest_tick(parts) + 1.6
    roles = {**parts.roles, "client": [client.pid], "host figures": [hosts.pid]}
    client.send({**order, "seconds": 2.0})  # connections and names
    client.receive(_ANSWER_SECONDS)
    before, began = usage.read(roles), parts.mark() if not given.still else None
    client.send(order)
    found = client.receive(given.seconds + _ANSWER_SECONDS)
    cores = usage.cores(before, usage.read(roles))
    if began is not None:
        after = parts.mark()
        smoothed = (after.shards.applied - began.shards.applied) / (after.usage.at - began.usage.at)
        found["samples_smoothed_per_second"] = round(smoothed)
    if given.question == HOT_LIST and given.still:
        client.send({"do": "compare", "now": order["now"]})
        found |= client.receive(_ANSWER_SECONDS)
    return {**found, "cores": {role: round(value, 3) for role, value in cores.items()}}


def _newest_tick(parts: pipeline.Pipeline) -> int:
    """The newest tick of the hosts' own figures in the shards."""
    reader, looks = SnapshotReader(parts.cluster), [set[int]()]

    def settled() -> bool:
        looks.append({block.tick for block in reader.latest(lambda _, number: number == SET_ID).blocks})
        return len(looks[-1]) == 1 and looks[-1] == looks[-2]

    problem = f"the filter has not smoothed all hosts {_DRAIN_SECONDS} s after they stopped"
    eventually(settled, _DRAIN_SECONDS, problem, partial(pause, 1.0), UnavailableError)
    return looks[-1].pop()


def _failures(given: argparse.Namespace, median: dict[str, Any]) -> list[str]:
    failures = []
    most = _MOST_P99[given.question]
    if median["milliseconds"]["p99"] > most:
        failures.append(f"p99 {median['milliseconds']['p99']} ms, at most {most:g} are asked for")
    unchanged = median.get("unchanged_milliseconds", {}).get("p99", 0.0)
    if unchanged > _MOST_UNCHANGED_P99:
        failures.append(f"unchanged: p99 {unchanged} ms, at most {_MOST_UNCHANGED_P99:g} are asked for")
    if (ratio := median.get("ratio", {}).get("p50", 0.0)) > _MOST_RATIO:
        failures.append(f"{ratio} times a pipelined GET of the same bytes, at most {_MOST_RATIO:g} are asked for")
    if abstained := median.get("abstained", 0):
        failures.append(f"{abstained} of {median['hosts']} hosts could not be judged: the pipeline is behind")
    if not median.get("equal", True):
        failures.append("the hot list is not what judging every host says")
    return failures


def _format(document: dict[str, Any]) -> list[str]:
    rows = []
    for run in document["runs"]:
        told = ", ".join(f"{key} {run[key]}" for key in run if isinstance(run[key], int))
        wall, cpu = run["milliseconds"], run["cpu_milliseconds"]
        cores = ", ".join(f"{role} {value:.2f}" for role, value in run["cores"].items())
        rows.append(
            f"  p50 {wall['p50']} ms   p99 {wall['p99']} ms   CPU p50 {cpu['p50']} ms   {told}   cores: {cores}"
        )
        for kind in ("unchanged", "ids", "ahead", "changed", "reference", "described"):
            if f"{kind}_milliseconds" in run:
                part = run[f"{kind}_milliseconds"]
                rows.append(f"    {kind:9} p50 {part['p50']} ms   p99 {part['p99']} ms")
        if "age_milliseconds" in run:
            part = run["age_milliseconds"]
            rows.append(f"    oldest values in a snapshot: age p50 {part['p50']} ms   p95 {part['p95']} ms")
        if "ratio" in run:
            rows.append(f"    new tick to reference: p50 {run['ratio']['p50']}   p99 {run['ratio']['p99']}")
    return rows


def _parse(argv: list[str]) -> argparse.Namespace:
    made = outcome.parser(
        "reading", _DESCRIPTION, _EXAMPLES,
        hosts=100, entities=101, metrics=15, seconds=60.0, warm_up=_WARM_UP, shards=0, repeats=1,
    )  # fmt: skip
    made.add_argument("--question", choices=QUESTIONS, default=SNAPSHOT, help="what is asked (default snapshot)")
    made.add_argument("--rate", type=float, default=1.0, metavar="HZ", help="frames of a host's VMs (default 1)")
    made.add_argument("--pause", type=float, default=0.1, metavar="S", help="between two on average (default 0.1)")
    made.add_argument("--alone", action="store_true", help="changes nothing: no thread reads ahead any more")
    made.add_argument("--still", action="store_true", help="after the data center has come to a standstill")
    return made.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
