"""grow, drain, replace and upgrade on real hosts, while a hundred emulated ones make 50,500 samples a second."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from acquisition.link.resp import Connection, parse_address
from acquisition.link.trust.credentials import Credentials, ours
from acquisition.shards.servers import grants
from experiments.processes.control import Child
from tests.support import newer_redis
from tests.support.built import built, commit_of_the_checkout
from tests.support.deployed_site import NAMES, SPARE, Site, changed, inventory, said, sending, three_hosts
from tests.support.waiting import eventually

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "redis-server")]

NEXT = """\
FORMATS = {**FORMATS, NEWEST + 1: Versions(*(version + 1 for version in FORMATS[NEWEST]))}
NEWEST += 1
"""
PARTS = "probe,filter,serve,archive"


class Loaded(NamedTuple):
    """The hosts, and what makes samples."""

    site: Site
    generator: Child

    def inventory(self, *shards: str) -> dict[str, Any]:
        """With these hosts in the group shards, and no host that has no power."""
        return inventory(self.site, list(shards))

    def play(self, book: str, *shards: str, **variables: Any) -> dict[str, int]:
        """Run a playbook that succeeds; how much each host was changed."""
        done = self.site.play(book, "-e", json.dumps(variables), inventory=self.inventory(*shards))
        assert done.returncode == 0, said(done, {})
        return changed(done)

    def playing(
        self, book: str, *shards: str, said: Path, **variables: Any
    ) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """A playbook that runs, and finds out within seconds that a host is away."""
        ssh = "-o ControlMaster=auto -o ControlPersist=120s -o ServerAliveInterval=5 -o ServerAliveCountMax=3"
        inventory = self.inventory(*shards)
        return self.site.playing(
            book, "-e", json.dumps(variables), inventory=inventory, said=said, ANSIBLE_SSH_ARGS=ssh
        )

    def shards(self) -> dict[str, dict[str, Any]]:
        """All members, by address."""
        first = f"{self.site.hosts['node1'].address}:7600"
        told = self.site.shows("operator", "shards", "status", "--json", "--addresses", first)
        return {row["address"]: row for row in json.loads(told.stdout)["shards"]}

    def owning(self) -> list[str]:
        """Who has a master with partitions, once per master."""
        names = {host.address: name for name, host in self.site.hosts.items()}
        return sorted(names[address.split(":")[0]] for address, row in self.shards().items() if row["slots"])

    def machines(self) -> list[str]:
        """Who has a master with partitions, once per master; each has a replica in sync on another machine."""
        names = {host.address: name for name, host in self.site.hosts.items()}
        rows = self.shards()
        owning = [address for address, row in rows.items() if row["slots"]]
        following = {row["replica_of"]: address for address, row in rows.items() if row["in_sync"]}
        assert sorted(following) == sorted(owning), rows
        assert all(one.split(":")[0] != other.split(":")[0] for one, other in following.items()), rows
        return sorted(names[address.split(":")[0]] for address in owning)

    def started(self, names: Sequence[str]) -> dict[tuple[str, str], str]:
        """Which start of each unit runs, by host and unit."""
        found = {}
        for name in names:
            host = self.site.hosts[name]
            units = host.ssh("systemctl list-units --plain --no-legend --state=running 'shardpulse-*' | cut -d' ' -f1")
            for unit in units.split():
                found[name, unit] = host.ssh(f"systemctl show -P InvocationID {unit}").strip()
        return found

    def books(self) -> dict[str, int]:
        """Of the samples of all hosts."""
        found: dict[str, int] = json.loads(self.site.shows("observer", "status", "--json").stdout)["books"]
        assert found["made"] > 0
        return found

    def lost(self) -> int:
        """Samples of all hosts."""
        return self.books()["lost"]

    def is_whole(self) -> bool:
        """Whether every shard answers, and every replica is in sync."""
        rows = self.shards().values()
        return all(row["answering"] and (row["role"] != "replica" or row["in_sync"]) for row in rows)

    def redis_of(self, address: str) -> str:
        """The version of a running server, as it says."""
        secrets = self.site.directory / "secrets"
        password = (secrets / "passwords" / grants.OBSERVER).read_text().strip()
        user = Credentials(grants.OBSERVER, password, ours(), str(secrets / "shards" / "ca.pem"))
        with contextlib.closing(Connection(parse_address(address), user, 20)) as connection:
            told = connection.call("INFO", "server").decode().splitlines()
        return next(line.partition(":")[2] for line in told if line.startswith("redis_version:"))


def of_the_next_version(place: Path) -> Path:
    """This checkout as its next version will be (as in tests.support.next_version): records have a newer format."""
    repository = commit_of_the_checkout(place)
    formats = repository / "acquisition" / "wire" / "records" / "record_format.py"
    formats.write_text(f"{formats.read_text()}\n\n{NEXT}")
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C", str(repository)]
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "next"], check=True)
    return repository


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    with three_hosts(tmp_path_factory.mktemp("growing"), [SPARE]) as site, sending(site) as generator:
        yield Loaded(site, generator)


def test_added_machine_gets_its_share_without_disturbance(loaded: Loaded) -> None:
    before = loaded.site.hosts["node1"].ssh("systemctl show --property=InvocationID shardpulse-filter shardpulse-probe")
    loaded.play("grow.yml", *NAMES, SPARE)
    assert loaded.machines() == [*NAMES, SPARE]
    assert set(loaded.play("grow.yml", *NAMES, SPARE).values()) == {0}
    after = loaded.site.hosts["node1"].ssh("systemctl show --property=InvocationID shardpulse-filter shardpulse-probe")
    assert after == before
    assert loaded.lost() == 0


def test_a_machine_is_drained_and_stopped(loaded: Loaded) -> None:
    loaded.play("drain.yml", *NAMES, SPARE, drained=SPARE)
    assert loaded.machines() == NAMES
    listed = loaded.site.hosts[SPARE].ssh(
        "systemctl list-units --state=active --plain --no-legend 'shardpulse-shard@*'"
    )
    assert listed == ""
    assert set(loaded.play("drain.yml", *NAMES, SPARE, drained=SPARE).values()) == {0}
    assert loaded.lost() == 0


def test_a_dead_machine_is_replaced(loaded: Loaded) -> None:
    address = loaded.site.hosts["node3"].address
    loaded.site.hosts["node3"].kill()
    eventually(
        lambda: loaded.owning() == ["node1", "node1", "node2"] or loaded.owning() == ["node1", "node2", "node2"], 60
    )
    done = loaded.site.play(
        "replace.yml", "-e", "dead=198.18.0.99", inventory=loaded.inventory("node1", "node2", SPARE)
    )
    assert done.returncode != 0
    assert "no member is at 198.18.0.99; who does not answer" in " ".join(done.stdout.split()), done.stdout
    # as a run leaves it that was interrupted: the new machine's servers run and know nobody
    loaded.site.hosts[SPARE].ssh("systemctl start 'shardpulse-shard@7600' 'shardpulse-shard@7700'")
    loaded.play("replace.yml", "node1", "node2", SPARE, dead=address)
    assert loaded.machines() == ["node1", "node2", SPARE]
    assert set(loaded.play("replace.yml", "node1", "node2", SPARE, dead=address).values()) == {0}
    assert loaded.lost() == 0


def test_everything_is_upgraded_under_load(loaded: Loaded, tmp_path: Path) -> None:
    """To a build whose records have a newer format, a newer Redis, and other configurations of the shards; one machine
    cannot be reached when its turn has come, and the same command goes on when it can."""
    now, spare = ["node1", "node2", SPARE], loaded.site.hosts[SPARE]
    before = loaded.started(now)
    wheels = built(of_the_next_version(tmp_path / "next"), "wheelhouse", "--extra", PARTS, out=tmp_path / "wheels")
    (newer,) = {newer_redis.offer(loaded.site.hosts[name]) for name in now}
    assert {loaded.redis_of(address) for address in loaded.shards()}.isdisjoint({newer})
    variables = {"controller_wheelhouse": str(wheels), "redis_shard_connections": 600, "redis_shard_newest": True}
    printed = tmp_path / "printed"
    with loaded.playing("upgrade.yml", *now, said=printed, **variables) as run:
        eventually(lambda: run.poll() is not None or is_its_turn(printed.read_text(), SPARE), 600)
        with spare.link.cut():
            assert run.wait(300) != 0
            words = " ".join(printed.read_text().split())
            assert f"shard {SPARE} is unreachable: " in words, words
            assert "what runs goes on running" in words
            assert "give the same command again: it goes on where it ended" in words
            eventually(lambda: set(loaded.owning()) == {"node1", "node2"} and len(loaded.owning()) == 3, 120)
            made = loaded.books()["made"]
            eventually(lambda: loaded.books()["made"] > made, 60)
    assert {loaded.redis_of(address) for address in loaded.shards() if not address.startswith(spare.address)} == {newer}
    eventually(loaded.is_whole, 120)
    loaded.play("upgrade.yml", *now, **variables)
    eventually(loaded.is_whole, 120)
    assert loaded.machines() == now
    after = loaded.started(now)
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert {loaded.redis_of(address) for address in loaded.shards()} == {newer}
    assert {loaded.site.hosts[name].ssh("apt-mark showhold").strip() for name in now} == {"redis-server"}
    assert set(loaded.play("upgrade.yml", *now, **variables).values()) == {0}
    assert loaded.started(now) == after
    assert loaded.lost() == 0


def is_its_turn(said: str, name: str) -> bool:
    """Whether a run of upgrade.yml has begun to change the shards of this host, the last of three."""
    turns = said.split("PLAY [Shards, one machine after the other]")
    return len(turns) > 3 and f"changed: [{name}]" in turns[3]
