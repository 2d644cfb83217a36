"""Onset delay of overload: from the load step to /v1/hot, real pipeline."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers.launch import start_shards
from experiments.emulation.host_figures import SET_ID
from experiments.emulation.workload import host_name
from experiments.harness import outcome, usage
from experiments.harness.service import Service, serving
from experiments.onset.steps import onsets_of, shape_of
from experiments.processes.control import Child, product, python
from experiments.processes.program import program

_ANSWER_SECONDS = 90.0
_POLL_SECONDS = 0.1
_CALM_SECONDS = 5.0  #: between all hosts judged and the first step
_IN_TIME = 5.0
_LEAD_SECONDS = 2.0
#: Maximum of each figure and quantile in seconds, by the interval of the hosts.
_MOST = {
    1.0: {("suspect_seconds", "p95"): 3.0, ("delay_seconds", "p50"): 4.6, ("delay_seconds", "p95"): 5.0},
    2.0: {("delay_seconds", "p95"): 7.0},
}

_DESCRIPTION = """\
Emulated hosts, each with a writer of the product, sample at their hashed phases; real shards, a real filter and
`shardpulse serve`, all with their defaults. The load of each host steps from 0.6 to 0.95 (deviation 0.02) at random
moments, and /v1/hot is asked ten times a second. The delay of a step runs from its onset to the moment at which the
first answer has come that calls the host hot. It consists of what the rule takes (to the end of the sample that the
answer is of: the time until the next sample, and the samples that the rule waits for) and of the rest (shards,
filter, reading, judging, and the 0 to 0.1 s between two questions). Beside that stand the delay to the first answer
that calls the host suspect or hot, and how long after sampling a record can be read in the shards at all."""

_EXAMPLES = """\
examples:
  python -m experiments.onset
  python -m experiments.onset --interval 2
  python -m experiments.onset --json --save onset

targets: hot p50 4.6 s and p95 5 s, suspect p95 3 s; with an interval of 2 s hot p95 7 s"""


class Detection(NamedTuple):
    """Detection of one step, all in seconds since 1970, None if the step was not detected: ``onset``; ``suspected``
    and ``answered``, the arrival of the first answer with the host suspect or hot, and hot; ``sampled``, the end of the
    sample behind ``answered``."""

    onset: float
    suspected: float | None = None
    answered: float | None = None
    sampled: float | None = None


@program("onset")
def main(argv: list[str]) -> int:
    """Measure, print, and report whether the targets are met."""
    given = _parse(argv)
    figures = measure(given)
    return outcome.conclude(outcome.document("onset", argv, [], figures, _missed(figures)), given, _text)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """One run on fresh shards. Raises ShardpulseError if a part does not start, or ends."""
    with tempfile.TemporaryDirectory(prefix="shardpulse-onset-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        shards = stack.enter_context(start_shards(given.shards, directory / "shards"))
        config = directory / "filter.toml"
        config.write_text("# the defaults\n")
        child = stack.enter_context(Child("filter", product("filter", config, shards.addresses)))
        task = {"shards": [str(address) for address in shards.addresses]}
        hosts = stack.enter_context(Child("hosts", python("experiments.onset.hosts")))
        hosts.send({**task, "hosts": given.hosts, "interval": given.interval, "seed": given.seed})
        hosts.receive(_ANSWER_SECONDS)
        fresh = stack.enter_context(Child("freshness reader", python("experiments.harness.freshness")))
        watched = {"hosts": list(range(given.hosts)), "resource_set": SET_ID, "credentials": Credentials()}
        fresh.send({**task, **watched, "poll_seconds": 0.02})
        fresh.receive(_ANSWER_SECONDS)
        service = stack.enter_context(serving(shards.addresses, directory, max(os.sched_getaffinity(0))))
        service.wait_for(given.hosts, 0, _ANSWER_SECONDS + 10.0 * given.interval)
        time.sleep(_CALM_SECONDS * given.interval)
        roles = {"service": [service.pid], "filter": [child.pid], "shards": shards.pids}
        before = usage.read(roles)
        fresh.send({"do": "begin"})
        detections = _watched(given, hosts, service)
        cores = {role: round(value, 4) for role, value in usage.cores(before, usage.read(roles)).items()}
        fresh.send({"do": "end"})
        readable = fresh.receive(_ANSWER_SECONDS)["freshness_ms"]
        hosts.send({"do": "stop"})
        counts = hosts.receive(_ANSWER_SECONDS)
    return {
        "hosts": given.hosts,
        "interval": given.interval,
        **figures_of(detections),
        "readable_ms": readable,
        "cores": cores,
        "frames_late_seconds": round(counts["lag_seconds"], 3),
        "frames_missed": counts["missed"],
    }


def _watched(given: argparse.Namespace, hosts: Child, service: Service) -> list[Detection]:
    """All steps of a run."""
    shape = shape_of(given.interval)
    begin = time.time() + _LEAD_SECONDS
    onsets = onsets_of(begin, given.hosts, given.steps, shape, given.seed)
    hosts.send({"do": "step", "onsets": onsets, "hold": shape.hold})
    pending = sorted((onset, host_name(index)) for index, moments in enumerate(onsets) for onset in moments)
    found: list[Detection] = []
    waiting: dict[str, float] = {}
    suspected: dict[str, float] = {}
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=_ANSWER_SECONDS)
    due = time.monotonic()
    with contextlib.closing(connection):
        while pending or waiting:
            due = max(due + _POLL_SECONDS, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            answer = _ask(connection)
            now = time.time()
            while pending and pending[0][0] <= now:
                onset, name = pending.pop(0)
                waiting[name] = onset
            for each in (*answer["suspect"], *answer["hot"]):
                if each["host"] in waiting:
                    suspected.setdefault(each["host"], now)
            for each in answer["hot"]:
                if (name := each["host"]) in waiting:
                    sampled = answer["now"] - each["age_seconds"]
                    found.append(Detection(waiting.pop(name), suspected.pop(name), now, sampled))
            for name in [name for name, onset in waiting.items() if now > onset + shape.hold]:
                found.append(Detection(waiting.pop(name), suspected.pop(name, None)))
    return found


def _ask(connection: http.client.HTTPConnection) -> dict[str, Any]:
    connection.request("GET", "/v1/hot")
    answer = connection.getresponse()
    body = answer.read()
    found: dict[str, Any] = json.loads(body) if answer.status == 200 else {"hot": [], "suspect": []}
    return found


def figures_of(detections: Sequence[Detection]) -> dict[str, Any]:
    """Figures of the steps of a run; parts of delays cover detected steps only."""
    triples = [(each.onset, each.sampled, each.answered) for each in detections]
    known = [(onset, sampled, answered) for onset, sampled, answered in triples if sampled and answered]
    delays = [answered - onset for onset, _, answered in known]
    return {
        "steps": len(detections),
        "not_detected": len(detections) - len(known),
        "in_time": sum(delay <= _IN_TIME for delay in delays),
        "suspect_seconds": _quantiles([suspected - onset for onset, suspected, *_ in detections if suspected]),
        "delay_seconds": _quantiles(delays),
        "rule_seconds": _quantiles([sampled - onset for onset, sampled, _ in known]),
        "rest_seconds": _quantiles([answered - sampled for _, sampled, answered in known]),
        "delays": [round(delay, 3) for delay in sorted(delays)],
    }


def _quantiles(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    p50, p95, most = np.percentile(values, [50, 95, 100])
    return {"p50": round(float(p50), 3), "p95": round(float(p95), 3), "max": round(float(most), 3)}


def _missed(figures: dict[str, Any]) -> list[str]:
    if figures["delay_seconds"] is None:
        return ["no step was detected"]
    return [
        f"{what} {name} is {figures[what][name]:g} s, at most {most:g} s are asked for"
        for (what, name), most in _MOST.get(figures["interval"], {}).items()
        if figures[what][name] > most
    ]


def _text(document: dict[str, Any]) -> list[str]:
    rows = [
        f"{document['hosts']} hosts, a sample every {document['interval']:g} s; {document['steps']} steps, "
        f"{document['in_time']} detected within {_IN_TIME:g} s, {document['not_detected']} not at all"
    ]
    for name, what in (
        ("suspect_seconds", "onset to the answer: suspect"),
        ("delay_seconds", "onset to the answer: hot"),
        ("rule_seconds", "  onset to the sample that shows it"),
        ("rest_seconds", "  that sample to the answer"),
    ):
        part = document[name] or dict.fromkeys(("p50", "p95", "max"), float("nan"))
        rows.append(f"  {what:34} p50 {part['p50']:.2f} s   p95 {part['p95']:.2f} s   max {part['max']:.2f} s")
    readable = document["readable_ms"]
    rows.append(f"  a sample to where it can be read:  p50 {readable['p50']} ms   p99 {readable['p99']} ms")
    return [*rows, "  cores: " + ", ".join(f"{role} {value:.3f}" for role, value in document["cores"].items())]


def _parse(argv: list[str]) -> argparse.Namespace:
    made = outcome.parser("onset", _DESCRIPTION, _EXAMPLES, hosts=60, shards=0, seed=1)
    made.add_argument("--steps", type=int, default=3, metavar="N", help="of each host (default 3)")
    made.add_argument("--interval", type=float, default=1.0, metavar="S", help="between two samples (default 1)")
    given = made.parse_args(argv)
    outcome.require_positive(given, "hosts", "steps", "interval")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
