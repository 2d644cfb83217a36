"""What docs/machines.md says of backups: an archive is restored and goes on, a shard has its list of members back, a
dead machine is replaced. Each as the page says it, with real servers."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address, Connection
from acquisition.shards.servers import grants
from acquisition.snapshot.reconcile import books
from acquisition.wire import keys, readers
from experiments.processes import access
from filters.archive.database import roles
from filters.archive.database.store import open_store
from filters.archive.following import claims
from filters.archive.following.follower import Follower
from tests.support import postgresql as servers
from tests.support.archive_rows import rows
from tests.support.archive_scene import Streams, archiver, turn_until
from tests.support.postgresql import PostgreSQL
from tests.support.processes import started
from tests.support.tls_cluster import Secured, command_in, host_on, tls_cluster
from tests.support.waiting import PATIENCE, eventually

PER_SECOND = 12  #: samples of all hosts of Streams
PATIENT = 60.0
LONELY = 1  #: the number of a master without a replica
LACK = access.missing()
needs_tls = pytest.mark.skipif(bool(LACK), reason=f"RESTORING SHARDS IS NOT TESTED HERE: {LACK}")


# the archive


def archive(action: str, url: str, *more: str) -> None:
    assert shardpulse(["archive", action, "--archive", url, *more]) == 0


def make_roles(server: PostgreSQL, name: str, secrets: Path) -> None:
    """The three users; each role's password is its own name."""
    words = [f"--{role.removeprefix('shardpulse_')}-password-file={secrets / role}" for role in roles.ROLES]
    archive("roles", server.url(name), *words)


def run(server: PostgreSQL, program: str, *arguments: str) -> None:
    """One of PostgreSQL's programs, at this server."""
    servers.run(server.directory, server.binaries, program, "-h", str(server.directory), "-U", "postgres", *arguments)


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A password for each role, in a file of its own and where libpq looks."""
    for role in roles.ROLES:
        (tmp_path / role).write_text(f"{role}\n")
    (tmp_path / "pgpass").write_text("".join(f"*:*:*:{role}:{role}\n" for role in roles.ROLES))
    for path in tmp_path.iterdir():
        path.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    return tmp_path


def claimed(cluster: Cluster, tag: str) -> int:
    """Up to which second the archive has claimed a partition."""
    data = cluster.call(keys.readers(tag), "HGET", keys.readers(tag), "archive")
    return 0 if data is None else int(readers.decode(data).cursor.split(b"-")[0]) // 1000


def test_a_restored_archive_goes_on_and_tells_what_it_lacks(
    cluster: Cluster, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came after the dump is archived again as far as streams hold it; the rest is a gap with its count."""
    monkeypatch.setattr(claims, "EVERY", 0.1)
    streams, dump = Streams(cluster), tmp_path / "metrics.dump"

    def archived(follower: Follower, seconds: int) -> None:
        turn_until(follower, lambda: follower.counts.archived == seconds * PER_SECOND)

    with servers.server() as lost:
        if not (lost.binaries / "pg_dump").exists():
            pytest.skip("RESTORING AN ARCHIVE IS NOT TESTED HERE: there is no pg_dump beside postgres")
        name = lost.create()
        make_roles(lost, name, secrets)
        archive("migrate", lost.url(name, roles.OWNER))
        with open_store(lost.url(name, roles.WRITER)) as store:
            one = archiver(cluster, store, "one", grace=0.2)
            streams.push(0, 150)
            archived(one, 150)
            run(lost, "pg_dump", "--format=custom", f"--file={lost.directory / 'dump'}", name)
            shutil.copyfile(lost.directory / "dump", dump)
            streams.push(150, 300)
            archived(one, 300)
            tags = {streams.tag(host) for host in streams.hosts}
            turn_until(one, lambda: min(claimed(cluster, tag) for tag in tags) >= streams.began + 290)
    raw = keys.raw(streams.tag(8))
    cluster.call(raw, "XTRIM", raw, "MINID", f"{streams.frames[8][250].tick * 1000}")
    with servers.server() as restored:
        name = restored.create()
        make_roles(restored, name, secrets)
        shutil.copyfile(dump, restored.directory / "dump")
        (restored.directory / "dump").chmod(0o644)
        run(restored, "pg_restore", "--exit-on-error", f"--dbname={name}", str(restored.directory / "dump"))
        with open_store(restored.url(name, roles.WRITER)) as store:
            streams.push(300)
            other = archiver(cluster, store, "one", grace=0.2)
            turn_until(other, lambda: sum(other.counts[:2]) == streams.samples)
        assert other.counts.gap == 100 * 4
        gaps = rows(restored.url(name), "SELECT details FROM events WHERE kind = 'gap'")
        assert [json.loads(details)["samples"] for (details,) in gaps] == [400]
        assert rows(restored.url(name), "SELECT 1 FROM events WHERE kind = 'database_went_back'")
        streams.frames[8][150:250] = []
        streams.assert_archived(restored.url(name))


# shards


class Scene:
    """A cluster that speaks TLS with a filter and a probe, whose host the shard that will die holds."""

    def __init__(self, secured: Secured, place: Path, stack: contextlib.ExitStack) -> None:
        self.secured, self.place, self.stack = secured, place, stack
        self.log = stack.enter_context((place / "said").open("wb"))
        reader = secured.credentials(grants.READER)
        self.cluster = stack.enter_context(contextlib.closing(Cluster(secured.addresses, reader, PATIENCE)))
        self.config = place / "operator.toml"
        self.config.write_text(secured.configure(grants.OPERATOR, "timeout_seconds = 20.0\n"))

    def home(self, number: int) -> Path:
        """Where the files of a server lie."""
        return self.secured.access.directory / f"shard-{number}"

    def flow(self, number: int) -> None:
        """Start a filter and the probe of a host that this shard holds."""
        name = host_on(self.cluster, self.secured.addresses[number])
        more = f'[host]\nname = "{name}"\n[probe]\ninterval_seconds = 0.25\nring_path = "{self.place}/ring"\n'
        for user in (grants.FILTER, grants.PROBE):
            config = self.place / f"{user}.toml"
            config.write_text(self.secured.configure(user, more))
            command = [sys.executable, "-m", "acquisition", user, "--config", str(config)]
            self.stack.enter_context(started(command, stdout=self.log, stderr=self.log))
        self.until(lambda: self.applied() > 3)

    def applied(self) -> int:
        """Frames that the filter has applied."""
        found = self.told()
        return 0 if found is None else books.totals(found.accounts).frames

    def told(self) -> books.Books | None:
        """The books; None while they cannot be read."""
        with contextlib.suppress(ShardpulseError):
            return books.read(self.cluster, read_layout(self.cluster))
        return None

    def balanced(self) -> bool:
        """Whether nothing is lost, and the counts agree."""
        found = self.told()
        return found is not None and found.balanced and not books.totals(found.accounts).lost

    def until(self, done: Callable[[], object]) -> None:
        eventually(done, PATIENT, says=(self.place / "said").read_text)

    def kill(self, number: int) -> None:
        self.secured.children[number].kill()
        self.secured.children[number].wait()

    def start(self, number: int) -> None:
        home = self.home(number)
        child = self.stack.enter_context(started(command_in(home), stdout=self.log, cwd=home))
        self.secured.children[number] = child
        address = [*self.secured.addresses, *self.secured.spare][number]
        self.until(lambda: self.ask(address, "PING") is not None)

    def ask(self, address: Address, *command: object) -> bytes | None:
        """What a server answers the operator, None where it refuses."""
        operator = self.secured.credentials(grants.OPERATOR)
        with (
            contextlib.suppress(ShardpulseError),
            contextlib.closing(Connection(address, operator, PATIENCE)) as connection,
        ):
            found: bytes = connection.call(*command)
            return found
        return None

    def shards(self, *words: str, through: int = 2) -> int:
        """`shardpulse shards`, asked through one shard."""
        named = ["--config", str(self.config), "--addresses", str(self.secured.addresses[through])]
        return shardpulse(["shards", *words, *named])

    def serves(self) -> bool:
        """Whether all members do, in their own words."""
        return self.shards("status") == 0

    def goes_on(self) -> None:
        """All shards serve, samples flow, and none is lost."""
        self.until(self.serves)
        before = self.applied()
        self.until(lambda: self.applied() > before + 3)
        self.until(self.balanced)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with contextlib.ExitStack() as stack:
        secured = stack.enter_context(tls_cluster(tmp_path / "cluster", spare=1))
        yield Scene(secured, tmp_path, stack)


def lines(text: bytes | None) -> list[list[str]]:
    """CLUSTER NODES: the words of each line."""
    return [line.split() for line in (text or b"").decode().splitlines()]


@pytest.mark.few
@needs_tls
def test_a_shard_has_its_list_of_members_back(scene: Scene) -> None:
    """The copy is older than the last growth, and the shard has run without it as somebody whom nobody knows."""
    number, address = LONELY, scene.secured.addresses[LONELY]
    kept = scene.place / "nodes.conf.kept"
    shutil.copyfile(scene.home(number) / "nodes.conf", kept)
    assert scene.shards("add", str(scene.secured.spare[0])) == 0
    scene.flow(number)
    scene.kill(number)
    (scene.home(number) / "nodes.conf").unlink()
    scene.start(number)
    assert len(lines(scene.ask(address, "CLUSTER", "NODES"))) == 1
    scene.kill(number)
    shutil.copyfile(kept, scene.home(number) / "nodes.conf")
    scene.start(number)
    scene.goes_on()
    known = lines(scene.ask(scene.secured.spare[0], "CLUSTER", "NODES"))
    assert sum(len(words) > 8 for words in known) == 4, "those who hold slots"


@pytest.mark.few
@needs_tls
def test_another_server_in_place_of_a_dead_one(scene: Scene) -> None:
    """Its replica has taken over, it is forgotten, and the new one follows the replica that is a master now."""
    dead, heir, new = scene.secured.addresses[0], scene.secured.addresses[3], scene.secured.spare[0]
    scene.flow(0)
    scene.kill(0)
    scene.until(lambda: b"myself,master" in (scene.ask(heir, "CLUSTER", "NODES") or b""))
    scene.until(lambda: scene.shards("remove", str(dead)) == 0)
    assert scene.ask(new, "CLUSTER", "MEET", "127.0.0.1", str(heir.port)) == b"OK"
    name = scene.ask(heir, "CLUSTER", "MYID") or b""
    scene.until(lambda: scene.ask(new, "CLUSTER", "REPLICATE", name.decode()) == b"OK")
    scene.until(lambda: b"master_link_status:up" in (scene.ask(new, "INFO", "replication") or b""))
    scene.goes_on()
