"""Answers of a system about a host or VM, and their correctness (pure).

An answer is *hot* if the system's alert fires (Prometheus: an alert in the state ``firing``; shardpulse: the list
``hot`` of /v1/hot). Otherwise it is *idle* if its value is below 0.5: a scheduler would send more work there. Otherwise
it is *loaded* if it has a value at all, and *nothing* without one, which misleads no scheduler. The value is the busy
fraction of a host's CPU time, or of a VM's vCPUs: for Prometheus the result of an instant query, whose samples may be
as old as its range, for shardpulse the mean.

An answer is wrong if it calls a busy or dead host or VM idle, or an idle one hot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from experiments.beside.script import BUSY, DEAD, IDLE
from experiments.beside.tree import VCPUS

HOT, LOADED, NOTHING = "hot", "loaded", "nothing"  #: beside IDLE
IDLE_BELOW = 0.5
OUTCOMES = (HOT, "suspect", "saturated", "not_hot")  #: of shardpulse with a value


class Answer(NamedTuple):
    """``value`` is a fraction of all CPU time; None: the system gives none."""

    value: float | None = None
    hot: bool = False


Answers = Mapping[str, Answer]  #: by host-N and vm-N


def called(answer: Answer) -> str:
    """HOT, IDLE, LOADED or NOTHING."""
    if answer.hot:
        return HOT
    if answer.value is None or math.isnan(answer.value):
        return NOTHING
    return IDLE if answer.value < IDLE_BELOW else LOADED


def is_wrong(truth: str, what: str) -> bool:
    """Whether the answer ``what`` misleads: BUSY or DEAD called IDLE, IDLE called HOT."""
    return (truth in {BUSY, DEAD} and what == IDLE) or (truth == IDLE and what == HOT)


def of_prometheus(
    hosts: Iterable[dict[str, Any]], vms: Iterable[dict[str, Any]], alerts: Iterable[dict[str, Any]], name: str
) -> dict[str, Answer]:
    """From two instant vectors (hosts by ``instance``, cores of VMs by ``groupname``) and /api/v1/alerts, in which only
    the alert ``name`` counts."""
    firing = {
        alert["labels"]["instance"]
        for alert in alerts
        if alert["state"] == "firing" and alert["labels"]["alertname"] == name
    }
    values = {each["metric"]["instance"]: float(each["value"][1]) for each in hosts}
    found = {host: Answer(values.get(host), host in firing) for host in {*values, *firing}}
    cores = {each["metric"]["groupname"]: float(each["value"][1]) for each in vms}
    return {**found, **{vm: Answer(value / VCPUS) for vm, value in cores.items()}}


def of_shardpulse(hot: dict[str, Any], snapshot: dict[str, Any]) -> dict[str, Answer]:
    """From /v1/hot with the OUTCOMES, and /v1/snapshot of the set vms with the metric cpu_ratio."""
    found = {}
    for row in (row for outcome in OUTCOMES for row in hot.get(outcome) or ()):
        means = [figure["value"] for figure in row["figures"] if figure["name"] == "cpu_busy_ratio mean"]
        found[row["host"]] = Answer(means[0] if means else None, row["outcome"] == HOT)
    for block in snapshot["blocks"]:
        for entity, row in zip(block["entities"], block["mean"], strict=True):
            if not entity["shadow"]:
                found[entity["name"]] = Answer(None if row[0] is None else row[0] / VCPUS)
    return found
