"""Watcher's own strategies on a live snapshot: what they do is what the raw figures imply.

Everything between the frames and the actions is real: shards, filter, datasource, and of Watcher its plugin
loaders, configuration, datasource manager, model and strategies. What a strategy should do is
computed here by hand from the raw loads.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import pstdev
from typing import Any, NamedTuple

import pytest
from oslo_config import cfg
from watcher.common import clients, exception, utils
from watcher.decision_engine.loading.default import DefaultStrategyLoader
from watcher.decision_engine.scoring import scoring_factory
from watcher.decision_engine.strategy.strategies.base import StrategyEndpoint

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from filters.watcher.datasource import ShardpulseHelper
from tests.support.watcher_scene import CORES, MEMORY_MIB, Center, ComputeHost, Guest

WATCHER_CONF = """
[watcher_strategies.workload_stabilization]
datasources = shardpulse
[watcher_strategies.workload_balance]
datasources = shardpulse
[watcher_datasources]
query_max_retries = 2
query_interval = 0
"""
# node1 is the busiest; besides its VMs every host has some load of its own
VMS = (Guest("large", 2.4, ram_mib=6000), Guest("middle", 1.6, ram_mib=4000), Guest("small", 0.8, ram_mib=1000))
NODE1 = ComputeHost("node1", 0.70, VMS, used_mib=24000)
NODE2 = ComputeHost("node2", 0.30, (Guest("second", 1.2),), used_mib=8000)
NODE3 = ComputeHost("node3", 0.25, (Guest("third", 0.8),), used_mib=6000)

Move = tuple[str, str, str]


class Audit(NamedTuple):
    """What a strategy did: moves (VM, from, to), and the strategy itself."""

    moves: list[Move]
    strategy: Any


RunAudit = Callable[..., Audit]


@pytest.fixture
def configured(shards: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both products configured as an operator does it, and Watcher's plugins loaded as its service does."""
    ours, theirs = tmp_path / "shardpulse.toml", tmp_path / "watcher.conf"
    addresses = list(map(str, shards.addresses))
    ours.write_text(f"[shards]\naddresses = {addresses!r}\n[snapshot]\ndown_after_seconds = 30\n")
    theirs.write_text(WATCHER_CONF)
    monkeypatch.setenv("SHARDPULSE_CONFIG", str(ours))
    scoring_factory.get_scoring_engine_list()
    cfg.CONF(["--config-file", str(theirs)], project="watcher")
    yield
    cfg.CONF.reset()


@pytest.fixture
def audit(cluster: Cluster, configured: None) -> Iterator[RunAudit]:
    """``audit(strategy, machines, late_by={}, **parameters)`` feeds the shards, then runs a strategy."""
    centers = []

    def run(name: str, machines: Sequence[ComputeHost], late_by: dict[str, float] | None = None, **given: Any) -> Audit:
        center = Center(cluster, machines)
        centers.append(center)
        center.feed(late_by)
        strategy = strategy_of(name, center, given)
        solution = strategy.execute()
        names = {guest.uuid: guest.name for machine in machines for guest in machine.guests}
        inputs = [action["input_parameters"] for action in solution.actions]
        return Audit([(names[i["resource_id"]], i["source_node"], i["destination_node"]) for i in inputs], strategy)

    yield run
    for center in centers:
        center.close()


def strategy_of(name: str, center: Center, given: dict[str, Any]) -> Any:
    """A strategy as Watcher's audit makes it, on the model of ``center``."""
    strategy = DefaultStrategyLoader().load(name, osc=clients.OpenStackClients())
    parameters = dict(given)
    utils.StrictDefaultValidatingDraft4Validator(strategy.get_schema()).validate(parameters)
    strategy.input_parameters.update(parameters)
    strategy._compute_model = center.model()  # Nova's collector makes it otherwise
    assert isinstance(strategy.datasource_backend, ShardpulseHelper)
    return strategy


def best_move(loads: dict[str, float], shares: dict[str, tuple[str, float]]) -> tuple[float, Move]:
    """Of all moves the one after which the hosts' loads differ least: (standard deviation, move).

    ``shares``: VM -> (host, share of a host that it takes).
    """
    found = []
    for name, (source, share) in shares.items():
        for target in loads.keys() - {source}:
            after = {**loads, source: loads[source] - share, target: loads[target] + share}
            found.append((pstdev(after.values()), (name, source, target)))
    return min(found)


def cpu_shares(machines: Sequence[ComputeHost]) -> dict[str, tuple[str, float]]:
    return {
        guest.name: (machine.name, guest.cores / CORES)
        for machine in machines
        for guest in machine.guests
        if guest.cores is not None
    }


def test_stabilization_makes_the_move_that_the_raw_loads_imply(audit: RunAudit) -> None:
    machines = (NODE1, NODE2, NODE3)
    loads = {machine.name: machine.busy for machine in machines}
    assert pstdev(loads.values()) > 0.1  # 0.2014: out of balance
    deviation, move = best_move(loads, cpu_shares(machines))
    assert move == ("middle", "node1", "node3")  # by hand: 0.50, 0.30, 0.45
    assert deviation == pytest.approx(0.0850, abs=1e-4)  # below 0.1: one move is enough
    done = audit("workload_stabilization", machines, host_choice="fullsearch")
    assert done.moves == [move]
    assert done.strategy.sd_before_audit == pytest.approx(0.2014, rel=0.02)  # of means of noisy samples
    assert done.strategy.sd_after_audit == pytest.approx(deviation, rel=0.02)


def test_stabilization_of_memory_follows_the_raw_bytes(audit: RunAudit) -> None:
    machines = (NODE1, NODE2, NODE3)
    loads = {machine.name: machine.used_mib / MEMORY_MIB for machine in machines}
    shares = {
        guest.name: (machine.name, guest.ram_mib / MEMORY_MIB) for machine in machines for guest in machine.guests
    }
    deviation, move = best_move(loads, shares)
    assert move == ("large", "node1", "node3")
    assert deviation < 0.15 < pstdev(loads.values())
    done = audit(
        "workload_stabilization", machines, host_choice="fullsearch", metrics=["instance_ram_usage"],
        thresholds={"instance_ram_usage": 0.15},
    )  # fmt: skip
    assert done.moves == [move]
    assert done.strategy.sd_after_audit == pytest.approx(deviation, rel=1e-4)


def test_stabilization_leaves_a_balanced_center_alone(audit: RunAudit) -> None:
    machines = (NODE1._replace(busy=0.35), NODE2, NODE3)
    assert pstdev([machine.busy for machine in machines]) < 0.1
    assert audit("workload_stabilization", machines, host_choice="fullsearch").moves == []


def test_stabilization_never_moves_a_vm_whose_load_is_missing(audit: RunAudit) -> None:
    hidden = [guest._replace(cores=None) if guest.name == "middle" else guest for guest in VMS]
    machines = (NODE1._replace(guests=hidden), NODE2, NODE3)
    loads = {machine.name: machine.busy for machine in machines}
    _, move = best_move(loads, cpu_shares(machines))
    assert move == ("large", "node1", "node3")
    moves = audit("workload_stabilization", machines, host_choice="fullsearch").moves
    assert moves[0] == move
    assert "middle" not in {name for name, _, _ in moves}


def test_stabilization_with_stale_host_fails(audit: RunAudit) -> None:
    """What the docstring of the datasource says of None: no action plan, rather than a wrong one."""
    machines = (NODE1, NODE2, NODE3._replace(busy=0.9))
    with pytest.raises(KeyError):
        audit("workload_stabilization", machines, {"node3": 90.0}, host_choice="fullsearch")


def test_stabilization_with_unmonitored_host_moves_nothing(
    audit: RunAudit,
) -> None:
    machines = (NODE1._replace(busy=0.35), NODE2, NODE3._replace(busy=0.9))
    assert audit("workload_stabilization", machines, {"node3": 90.0}, host_choice="fullsearch").moves == []


def test_balance_makes_the_move_that_the_raw_loads_imply(audit: RunAudit) -> None:
    machines = (NODE1, NODE2, NODE3)
    cores = {machine.name: sum(guest.cores or 0 for guest in machine.guests) for machine in machines}
    assert cores == pytest.approx({"node1": 4.8, "node2": 1.2, "node3": 0.8})
    # threshold 50%: node1 has 4.8 of 8 cores, and average is 2.27: of what is at most 2.53 above it, 2.4 comes
    # closest. On node3 it makes 3.2, below 4.
    assert audit("workload_balance", machines, threshold=50.0).moves == [("large", "node1", "node3")]
    assert audit("workload_balance", machines, threshold=65.0).moves == []  # 60% is below


def test_balance_of_memory_follows_the_raw_bytes(audit: RunAudit) -> None:
    machines = (NODE1, NODE2, NODE3)
    # node1's VMs have 11000 of 32768 MiB (33.6%), the others 1024 each; average 4349.3: 6000 is the most that is at
    # most 6650.7 above it; node2 and node3 are equal, the first one is taken: 7024 of 32768 is below 30%
    moves = audit("workload_balance", machines, threshold=30.0, metrics="instance_ram_usage").moves
    assert [(name, source) for name, source, _ in moves] == [("large", "node1")]
    assert moves[0][2] in {"node2", "node3"}


def test_balance_counts_an_idle_vm_and_leaves_out_a_missing_one(audit: RunAudit) -> None:
    idle = Guest("idle", 0.0)
    machines = (NODE1._replace(guests=(*VMS, idle)), NODE2, NODE3)
    assert audit("workload_balance", machines, threshold=50.0).moves == [("large", "node1", "node3")]


def test_balance_takes_a_vm_without_a_value_for_none(audit: RunAudit) -> None:
    """Watcher's own gap: what is missing is left out of the sum, so node1 seems to have 2.4 cores of load."""
    hidden = [guest._replace(cores=None) if guest.name == "large" else guest for guest in VMS]
    machines = (NODE1._replace(guests=hidden), NODE2, NODE3)
    assert audit("workload_balance", machines, threshold=50.0).moves == []


def test_a_wrong_configuration_is_told_and_not_passed_over(
    configured: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Watcher goes on to the next datasource without a word."""
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[shard]\n")
    monkeypatch.setenv("SHARDPULSE_CONFIG", str(wrong))
    strategy = DefaultStrategyLoader().load("workload_balance", osc=clients.OpenStackClients())
    with pytest.raises(exception.MetricNotAvailable):
        strategy.datasource_backend  # noqa: B018
    assert "datasource shardpulse is unavailable" in caplog.text
    assert "wrong.toml" in caplog.text


def test_the_state_of_a_strategy_is_told_as_of_any_other_datasource(configured: None, cluster: Cluster) -> None:
    """``openstack optimize strategy state``."""
    center = Center(cluster, (NODE1,))
    center.feed()
    strategy = strategy_of("workload_stabilization", center, {})
    endpoint = StrategyEndpoint(None)
    backend = strategy.datasource_backend
    assert endpoint._get_datasource_status(strategy, backend)["state"] == "shardpulse: available"
    assert endpoint._collect_metrics(strategy, backend)["state"] == [
        {"host/cpu_busy_ratio": "available"},
        {"vms/cpu_ratio": "available"},
        {"vms/memory_resident_bytes": "available"},
        {"host/memory_used_bytes": "available"},
    ]
    center.close()


EVENTLET = """
import os
os.environ["OS_WATCHER_DISABLE_EVENTLET_PATCHING"] = "0"
from watcher.cmd.eventlet import decisionengine
from watcher import eventlet
assert eventlet.is_patched()
from watcher.decision_engine.sync import Syncer
from watcher.decision_engine.loading.default import DefaultStrategyLoader
from watcher import conf
from watcher.common import clients
import sys
conf.CONF(["--config-file", sys.argv[1]], project="watcher")
found = Syncer()._discover()
assert "shardpulse" not in found["scoringengines"]
strategy = DefaultStrategyLoader().load("workload_stabilization", osc=clients.OpenStackClients())
print(strategy.datasource_backend.NAME, strategy.datasource_backend.check_availability())
"""


def test_watchers_service_finds_it_and_it_works_in_green_threads(
    configured: None, cluster: Cluster, tmp_path: Path
) -> None:
    """The start of the decision engine up to its first audit, without its database, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVENTLET, str(tmp_path / "watcher.conf")], capture_output=True, text=True
    )
    assert done.stdout.split("\n")[0] == "shardpulse available", done.stderr
