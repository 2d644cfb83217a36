"""VMs as their owners name them, and noisy neighbours: the command, the resources, `top`, /metrics, on real shards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_DATA
from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from filters.text.owners import owner_id
from tests.support.data_center import Guest, Machine, flowing
from tests.support.serving import Serving

Capture = pytest.CaptureFixture[str]
#: busy and suffering in cores: the noisiest is not the one that suffers most
GUESTS = [
    Guest("loud", 5.0, 4, {"owner": "proxmox", "vmid": "302"}, suffering=0.5),
    Guest("victim", 1.0, 4, {"owner": "opennebula", "one": "524"}, suffering=2.0),
    Guest("asleep", 0.0, 4, {"owner": "openstack"}, state=2.0),
]


@pytest.fixture
def addresses(shards: Shards, cluster: Cluster) -> Iterator[str]:
    machines = [Machine(cluster, "host-1", GUESTS), Machine(cluster, "host-2", [Guest("calm", 0.1, 1)])]
    with flowing(cluster, machines):
        yield ",".join(map(str, shards.addresses))


@pytest.mark.parametrize(
    ("labels", "name", "expected"),
    [
        ({"owner": "proxmox", "vmid": "302"}, "n", "proxmox 302"),
        ({"owner": "opennebula", "one": "524"}, "one-524", "opennebula 524"),
        ({"owner": "kubevirt", "namespace": "shop"}, "shop/web", "kubevirt shop/web"),
        ({"owner": "lxd", "project": "prod"}, "web", "lxd prod/web"),
        ({"owner": "openstack"}, "instance-3d", "openstack U-1"),
        ({}, "plain", "U-1"),
    ],
)
def test_owner_id_is_what_the_owner_calls_it(labels: dict[str, str], name: str, expected: str) -> None:
    assert owner_id(name, "U-1", labels) == expected


def test_neighbours_by_run_time_and_by_suffering(addresses: str, capsys: Capture) -> None:
    assert shardpulse(["query", "neighbours", "host-1", "--latest", "--shards", addresses]) == 0
    text = capsys.readouterr().out
    by_run, _, by_suffering = text.partition("\nby suffering\n")
    assert [line.split()[0] for line in by_run.splitlines()[4:7]] == ["loud", "victim", "asleep"]
    assert [line.split()[0] for line in by_suffering.splitlines()[1:]] == ["victim", "loud", "asleep"]
    assert "asleep  openstack uuid-asleep  stopped" in text
    assert "opennebula 524" in text
    assert shardpulse(["query", "neighbours", "host1", "--shards", addresses]) == EXIT_DATA
    assert "unknown host 'host1'; did you mean host-" in capsys.readouterr().err


def test_all_vms_as_a_table_and_as_json(addresses: str, capsys: Capture) -> None:
    assert shardpulse(["query", "vms", "--latest", "--json", "--shards", addresses]) == 0
    rows = json.loads(capsys.readouterr().out)["vms"]
    assert [(row["host"], row["name"], row["state"]) for row in rows] == [
        ("host-1", "asleep", "stopped"), ("host-1", "loud", "running"), ("host-1", "victim", "running"),
        ("host-2", "calm", "running"),
    ]  # fmt: skip
    (victim,) = [row for row in rows if row["name"] == "victim"]
    assert (victim["owner_id"], victim["vcpu_count"], victim["validity"]) == ("opennebula 524", 2.0, {})
    assert victim["vcpu_suffering_ratio"] == pytest.approx(2.0)
    assert shardpulse(["query", "vms", "--entity", "nobody", "--latest", "--shards", addresses]) == EXIT_DATA


def test_service_metrics_and_top_show_them(addresses: str, shards: Shards, tmp_path: Path, capsys: Capture) -> None:
    with Serving(tmp_path, shards.addresses) as service:
        service.ready()
        found = service.ask("/v1/hosts/host-1/neighbours?limit=1&reading=latest").json
        assert [row["name"] for row in found["by_run_time"]] == ["loud"]
        assert [row["owner_id"] for row in found["by_suffering"]] == ["opennebula 524"]
        assert found["vms_suffering_ratio"] is None, "the host did not send it: missing is never 0"
        assert len(service.ask("/v1/vms?reading=latest&entity_label=owner=proxmox").json["vms"]) == 1
        assert service.ask("/v1/hosts/nobody/neighbours").status == 404
        (row,) = service.ask("/v1/hosts/host-1?set=vms&entity=loud&reading=latest").json["host"]["entities"]
        assert row["owner_id"] == "proxmox 302"
        scraped = service.ask("/metrics").body.decode()
    assert 'label_owner="proxmox"' in scraped
    assert "shardpulse_vms_vcpu_suffering_ratio{" in scraped
    assert 'entity="asleep"' in next(line for line in scraped.splitlines() if 'state="stopped"' in line)
    assert shardpulse(["top", "--once", "--host", "host-1", "--shards", addresses]) == 0
    shown = capsys.readouterr().out
    assert "SUFFER" in shown
    assert "stopped" in shown
