"""Watcher's datasource on real shards and a real filter: units, names, and everything that is missing."""

from __future__ import annotations

import datetime
import logging
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg
from watcher.common import exception
from watcher.decision_engine.datasources.base import DataSourceBase

from acquisition.config.settings import Settings, Shards, Snapshot
from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards as RunningShards
from filters.watcher.datasource import ShardpulseHelper
from tests.support.processes import slept
from tests.support.waiting import eventually
from tests.support.watcher_scene import MEMORY_MIB, Center, ComputeHost, Guest, compute_node, instance_of

BUSY = Guest("busy", 3.0, vcpus=4, ram_mib=1500)
IDLE = Guest("idle", 0.0, vcpus=2, ram_mib=300)
OVER = Guest("over", 2.1, vcpus=2)
NO_CPU = Guest("no cpu", None)
OTHER = Guest("other", 1.0)
MACHINES = (
    ComputeHost("node1", 0.7, (BUSY, IDLE, OVER, NO_CPU), used_mib=10240),
    ComputeHost("node2.example.com", 0.0, huge_mib=2048),
    ComputeHost("old", 0.5, (OTHER,)),
    ComputeHost("blind", None),
    ComputeHost("twin.example.com", 0.1),
    ComputeHost("twin.example.org", 0.9),
)

StartCluster = Callable[..., RunningShards]


@pytest.fixture
def center(cluster: Cluster) -> Iterator[Center]:
    made = Center(cluster, MACHINES)
    made.feed(late_by={"old": 90.0})
    yield made
    made.close()


@pytest.fixture
def helper(shards: RunningShards, center: Center) -> ShardpulseHelper:
    return ShardpulseHelper(settings(*map(str, shards.addresses)))


def settings(*addresses: str, timeout: float = 2.0, directory: str = "") -> Settings:
    return Settings(
        shards=Shards(addresses=list(addresses), timeout_seconds=timeout, directory=directory),
        snapshot=Snapshot(grace_seconds=60.0, down_after_seconds=75.0),  # this machine may be busy
    )


def ask(helper: ShardpulseHelper, key: str, resource: Any) -> float | None:
    """As strategies do, by name; and the same through the method of that name."""
    kind = "compute_node" if key.startswith("host") else "instance"
    value = helper.statistic_aggregation(resource, kind, key, 600, "mean", 300)
    assert getattr(helper, f"get_{key}")(resource, 600, "mean", 300) == value
    return value


def test_values_have_the_units_of_watchers_contract(helper: ShardpulseHelper) -> None:
    node, busy = compute_node("node1"), instance_of(BUSY)
    assert ask(helper, "host_cpu_usage", node) == pytest.approx(70.0, abs=1.0)
    assert ask(helper, "host_ram_usage", node) == pytest.approx(10240 * 1024, rel=1e-6)
    pool = compute_node("node2.example.com")
    assert ask(helper, "host_ram_usage", pool) == pytest.approx((8192 - 2048) * 1024, rel=1e-6)
    assert ask(helper, "instance_cpu_usage", busy) == pytest.approx(75.0, abs=1.0)
    assert ask(helper, "instance_ram_usage", busy) == pytest.approx(1500.0)
    assert ask(helper, "instance_ram_allocated", busy) == pytest.approx(2048.0)
    assert ask(helper, "instance_root_disk_size", busy) == 20.0


def test_a_true_zero_is_zero_and_not_none(helper: ShardpulseHelper) -> None:
    assert ask(helper, "instance_cpu_usage", instance_of(IDLE)) == 0.0
    idle_host = ask(helper, "host_cpu_usage", compute_node("node2.example.com"))
    assert idle_host is not None
    assert idle_host == pytest.approx(0.0, abs=2.0)


def test_a_percentage_ends_at_100(helper: ShardpulseHelper) -> None:
    assert ask(helper, "instance_cpu_usage", instance_of(OVER)) == 100.0


def test_vcpus_are_those_of_watchers_model_else_those_the_probe_saw(helper: ShardpulseHelper) -> None:
    resized = instance_of(BUSY._replace(vcpus=8))
    assert ask(helper, "instance_cpu_usage", resized) == pytest.approx(37.5, abs=1.0)
    helper.metric_cache.clear()  # Watcher's own, by uuid
    unknown = type(resized)(uuid=BUSY.uuid)
    assert ask(helper, "instance_cpu_usage", unknown) == pytest.approx(75.0, abs=1.0)
    assert ask(helper, "instance_root_disk_size", unknown) is None


@pytest.mark.parametrize("name", ["node1.somewhere.org", "node2"])
def test_qualified_and_short_names_are_the_same_host(helper: ShardpulseHelper, name: str) -> None:
    assert ask(helper, "host_ram_usage", compute_node(name)) is not None


MISSING = {
    "unknown host": ("host_cpu_usage", compute_node("node9"), "host node9 is not monitored"),
    "other domain": ("host_cpu_usage", compute_node("node2.other.org"), "host node2.other.org"),
    "several hosts": (
        "host_cpu_usage",
        compute_node("twin"),
        "host name twin is ambiguous: twin.example.com, twin",
    ),
    "unknown vm": ("instance_cpu_usage", instance_of(Guest("nobody", 1.0)), "is not monitored"),
    "missing sample": ("instance_cpu_usage", instance_of(NO_CPU), "cpu_ratio has never been valid on host node1"),
    "missing on a host": ("host_cpu_usage", compute_node("blind"), "cpu_idle_ratio has never been valid on host blind"),
    "stale host": ("host_cpu_usage", compute_node("old"), "cpu_idle_ratio of host old was last valid 9"),
    "vm of a stale host": ("instance_cpu_usage", instance_of(OTHER), "cpu_ratio of host old was last valid 9"),
}


@pytest.mark.parametrize("case", MISSING)
def test_missing_stays_missing_and_the_log_says_why_once(
    helper: ShardpulseHelper, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    key, resource, reason = MISSING[case]
    caplog.set_level(logging.WARNING, "filters.watcher")
    assert ask(helper, key, resource) is None
    told = [record.getMessage() for record in caplog.records if record.name.startswith("filters.watcher")]
    assert len(told) == 1
    assert reason in told[0]


def test_wrong_question_yields_none_and_missing_metric_an_error(helper: ShardpulseHelper) -> None:
    node = compute_node("node1")
    assert helper.statistic_aggregation(node, "compute_node", "host_cpu_usage", 300, "max", 300) is None
    assert helper.statistic_aggregation(node, "bare_metal", "host_cpu_usage", 300, "mean", 300) is None
    for key in ("host_outlet_temp", "host_inlet_temp", "host_airflow", "host_power"):
        with pytest.raises(exception.MetricNotAvailable):
            getattr(helper, f"get_{key}")(node, 300, "mean")
    with pytest.raises(exception.MetricNotAvailable):
        helper.get_instance_l3_cache_usage(instance_of(BUSY), 300, "mean")


def test_the_class_fulfils_the_contract_of_its_base(helper: ShardpulseHelper) -> None:
    assert isinstance(helper, DataSourceBase)
    assert set(helper.METRIC_MAP) == set(DataSourceBase.METRIC_MAP)
    abstract = {name for name, value in vars(DataSourceBase).items() if getattr(value, "__isabstractmethod__", False)}
    assert abstract <= set(vars(ShardpulseHelper))
    assert helper.check_availability() == "available"
    assert helper.list_metrics() == set(filter(None, helper.METRIC_MAP.values()))


def test_a_series_is_the_newest_value_where_it_was_asked_for(helper: ShardpulseHelper) -> None:
    now, hour = datetime.datetime.now(datetime.UTC), datetime.timedelta(hours=1)
    query = (compute_node("node1"), "compute_node", "host_ram_usage")
    ((taken, value),) = helper.statistic_series(*query, now - hour, now + hour).items()
    assert value == pytest.approx(10240 * 1024)
    assert abs(taken - now) < datetime.timedelta(seconds=10)
    naive = (now - hour).replace(tzinfo=None)
    assert helper.statistic_series(*query, naive - hour, naive) == {}
    assert helper.statistic_series(compute_node("node9"), *query[1:]) is None


def test_migrating_vm_is_on_the_host_that_runs_it(shards: RunningShards, cluster: Cluster) -> None:
    moving = Guest("moving", 2.0)
    receiving = moving._replace(cores=0.0, started=20.0, incoming=True)
    center = Center(cluster, (ComputeHost("from", 0.5, (moving,)), ComputeHost("to", 0.5, (receiving,))))
    center.feed()
    helper = ShardpulseHelper(settings(*map(str, shards.addresses)))
    assert ask(helper, "instance_cpu_usage", instance_of(moving)) == pytest.approx(50.0, abs=1.0)
    center.close()


@pytest.mark.parametrize("late", [0.0, 5.0])
def test_vm_known_only_by_receiving_process_has_no_value(shards: RunningShards, cluster: Cluster, late: float) -> None:
    receiving = Guest("moving", 0.0, started=20.0, incoming=True)
    center = Center(cluster, (ComputeHost("to", 0.5, (receiving,)),))
    center.feed(late_by={"to": late})
    helper = ShardpulseHelper(settings(*map(str, shards.addresses)))
    assert ask(helper, "instance_cpu_usage", instance_of(receiving)) is None
    center.close()


def test_one_strategy_sees_one_snapshot(helper: ShardpulseHelper, center: Center) -> None:
    first = ask(helper, "host_ram_usage", compute_node("node1"))
    center.machines = (ComputeHost("node3", 0.1), ComputeHost("node1", 0.7, used_mib=MEMORY_MIB / 2))
    center.feed()
    assert ask(helper, "host_ram_usage", compute_node("node1")) == first
    assert ask(helper, "host_ram_usage", compute_node("node3")) is None


@pytest.fixture
def two_quick_attempts() -> Iterator[None]:
    for name, value in (("query_max_retries", 2), ("query_interval", 0)):
        cfg.CONF.set_override(name, value, "watcher_datasources")
    yield
    for name in ("query_max_retries", "query_interval"):
        cfg.CONF.clear_override(name, "watcher_datasources")


def test_shards_that_do_not_answer_are_not_available(start_cluster: StartCluster, two_quick_attempts: None) -> None:
    running = start_cluster(2, secured=True)
    machines = [ComputeHost(f"node{number}", 0.5) for number in range(8)]
    connected = running.connect()
    center = Center(connected, machines)
    center.feed()
    other = running.shards[1]
    answering = settings(*map(str, running.addresses), timeout=0.5, directory=str(running.directory))

    def memory_of_hosts() -> set[float | None]:
        helper = ShardpulseHelper(answering)
        return {ask(helper, "host_ram_usage", compute_node(machine.name)) for machine in machines}

    watching = ShardpulseHelper(answering)
    eventually(lambda: watching.check_availability() == "available", meanwhile=center.feed)  # before all are late
    center.close()
    assert memory_of_hosts() == {8192.0 * 1024}

    os.kill(other.pid, signal.SIGKILL)
    assert watching.check_availability() == "not available"  # a part of the hosts cannot be seen
    assert memory_of_hosts() == {8192.0 * 1024, None}

    running.stop()
    assert watching.check_availability() == "not available"
    assert watching.list_metrics() == set()
    began = slept()
    assert memory_of_hosts() == {None}
    assert slept() - began < 4, "a failure is remembered: one strategy asks thousands of questions"
