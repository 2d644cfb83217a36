"""grow.yml on real hosts, while a hundred emulated ones make 50,500 samples a second."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from acquisition.link.credentials import Credentials, ours
from acquisition.shards import grants
from experiments.emulation.workload import Workload
from experiments.processes.control import Child, python
from tests.support.deployed_site import NAMES, Site, changed, said, three_hosts

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "redis-server")]

SPARE = "node4"
WORKLOAD = Workload(hosts=100, entities=101, metrics=5)


class Loaded(NamedTuple):
    """The hosts, and what makes samples."""

    site: Site
    generator: Child

    def inventory(self, *shards: str) -> dict[str, Any]:
        """With these hosts in the group shards."""
        return self.site.inventory() | {"shards": {"hosts": {name: {} for name in shards}}}

    def play(self, book: str, *shards: str, **variables: Any) -> dict[str, int]:
        """Run a playbook that succeeds; how much each host was changed."""
        done = self.site.play(book, "-e", json.dumps(variables), inventory=self.inventory(*shards))
        assert done.returncode == 0, said(done, {})
        return changed(done)

    def shards(self) -> dict[str, dict[str, Any]]:
        """All members, by address."""
        first = f"{self.site.hosts['node1'].address}:7600"
        told = self.site.shows("operator", "shards", "status", "--json", "--addresses", first)
        return {row["address"]: row for row in json.loads(told.stdout)["shards"]}

    def machines(self) -> list[str]:
        """Who has a master with partitions, once per master; each has a replica in sync on another machine."""
        names = {host.address: name for name, host in self.site.hosts.items()}
        rows = self.shards()
        owning = [address for address, row in rows.items() if row["slots"]]
        following = {row["replica_of"]: address for address, row in rows.items() if row["in_sync"]}
        assert sorted(following) == sorted(owning), rows
        assert all(one.split(":")[0] != other.split(":")[0] for one, other in following.items()), rows
        return sorted(names[address.split(":")[0]] for address in owning)

    def lost(self) -> int:
        """Samples of all hosts."""
        books = json.loads(self.site.shows("observer", "status", "--json").stdout)["books"]
        assert books["made"] > 0
        return int(books["lost"])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    with three_hosts(tmp_path_factory.mktemp("growing"), [SPARE]) as site:
        secrets = site.directory / "secrets"
        password = (secrets / "passwords" / grants.PROBE).read_text().strip()
        task = {
            "workload": WORKLOAD._asdict(), "hosts": (0, WORKLOAD.hosts), "lean": False, "checked": [],
            "shards": [f"{site.hosts[name].address}:7600" for name in NAMES], "outstanding": 0, "held_frames": 600,
            "held_seconds": 600.0, "position_interval": 1.0, "drain_seconds": 120.0, "old_seconds": 1e9,
            "credentials": Credentials(grants.PROBE, password, ours(), str(secrets / "shards" / "ca.pem")),
            "breakable": False, "profile": None,
        }  # fmt: skip
        with Child("generator", python("experiments.emulation.generator")) as generator:
            generator.send(task)
            assert generator.receive(60) == {"ready": True}
            generator.send({"do": "start"})
            yield Loaded(site, generator)


def test_a_machine_more_gets_its_part_and_other_hosts_are_not_disturbed(loaded: Loaded) -> None:
    before = loaded.site.hosts["node1"].ssh("systemctl show --property=InvocationID shardpulse-filter shardpulse-probe")
    loaded.play("grow.yml", *NAMES, SPARE)
    assert loaded.machines() == [*NAMES, SPARE]
    assert set(loaded.play("grow.yml", *NAMES, SPARE).values()) == {0}
    after = loaded.site.hosts["node1"].ssh("systemctl show --property=InvocationID shardpulse-filter shardpulse-probe")
    assert after == before
    assert loaded.lost() == 0
