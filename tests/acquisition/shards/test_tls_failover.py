"""Over TLS with the users of each part: a replica takes over from a dead master, which comes back and follows it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Connection
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards import grants, join
from acquisition.wire import keys
from experiments.processes import access
from experiments.processes.access import MASTER_KEY
from tests.support.applied import sequence_of
from tests.support.beyond import beyond
from tests.support.forbidden import refused
from tests.support.processes import started
from tests.support.tls_cluster import Secured, command_in, denied, finds_replicas_lacking, tls_cluster
from tests.support.waiting import eventually

LACK = access.missing()
_PATIENT = 60.0
_SET = resource_set_id("host")


def host_on(cluster: Cluster, secured: Secured) -> tuple[str, str]:
    """A host whose partition the master with a replica owns, and its hash tag."""
    tags = keys.tags(keys.DEFAULT_PARTITIONS)
    names = (f"host-{number}" for number in range(1000))
    found = ((name, tags[keys.partition_of(host_id(name), len(tags))]) for name in names)
    return next((name, tag) for name, tag in found if cluster.owner(keys.raw(tag)) == secured.addresses[0])


def applied(cluster: Cluster, name: str, tag: str) -> int:
    """The newest frame of a host that its filter has applied."""
    with contextlib.suppress(ShardpulseError):  # its shard is away
        return sequence_of(cluster, host_id(name), _SET)
    return 0


def follows(secured: Secured) -> bool:
    """Whether the master that was killed is the replica of another one by now."""
    with contextlib.suppress(ShardpulseError):
        join.wait_in_sync(secured.addresses[0], 1.0, secured.credentials(grants.OPERATOR))
        return True
    return False


def listed(secured: Secured, number: int) -> str:
    """The users that a server knows, and the words of what they may do, which servers tell in any order."""
    with contextlib.closing(Connection(secured.addresses[number], secured.credentials(MASTER_KEY))) as connection:
        users = connection.call("ACL", "LIST")
    return "\n".join(" ".join(sorted(user.decode().replace("(", "").replace(")", "").split())) for user in users)


def not_refused(secured: Secured, number: int, user: str) -> list[str]:
    """What a server lets a user do beyond its work."""
    commands = beyond(user)
    with contextlib.closing(Connection(secured.addresses[number], secured.credentials(user), _PATIENT)) as connection:
        replies = connection.pipeline([tuple(command.split()) for command in commands])
    return [f"{user}: {command}" for command, reply in zip(commands, replies, strict=True) if not refused(reply)]


@pytest.mark.few
@pytest.mark.skipif(bool(LACK), reason=f"FAILOVER OVER TLS IS NOT TESTED HERE: {LACK}")
def test_all_users_go_on_at_the_replica_and_the_dead_master_follows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.ExitStack() as stack:
        secured = stack.enter_context(tls_cluster(tmp_path / "shards"))
        reader = secured.credentials(grants.READER)
        cluster = stack.enter_context(contextlib.closing(Cluster(secured.addresses, reader)))
        name, tag = host_on(cluster, secured)
        more = f'[host]\nname = "{name}"\n[probe]\ninterval_seconds = 0.2\nring_path = "{tmp_path}/ring"\n'
        more += f'[archive]\nurl = "{tmp_path}/archive.db"\n'
        said = stack.enter_context((tmp_path / "said").open("wb"))
        for user, *words in (("filter",), ("probe",), ("archive", "run")):
            config = tmp_path / f"{user}.toml"
            config.write_text(secured.access.section(user, secured.addresses, more))
            command = [sys.executable, "-m", "acquisition", user, *words, "--config", str(config)]
            stack.enter_context(started(command, stdout=said, stderr=said))

        def waits(done: Callable[[], object]) -> None:
            eventually(done, _PATIENT, says=(tmp_path / "said").read_text)

        waits(lambda: applied(cluster, name, tag) > 5)
        before = applied(cluster, name, tag)
        secured.children[0].kill()
        secured.children[0].wait()
        waits(lambda: applied(cluster, name, tag) > before + 5)
        assert cluster.owner(keys.raw(tag)) == secured.addresses[3]
        home = tmp_path / "shards" / "shard-0"
        stack.enter_context(started(command_in(home), stdout=said, cwd=home))
        waits(lambda: follows(secured))
        assert len({listed(secured, number) for number in range(4)}) == 1
        observer = tmp_path / "observer.toml"
        observer.write_text(secured.access.section(grants.OBSERVER, secured.addresses))

        def is_well() -> bool:
            capsys.readouterr()
            shardpulse(["status", "--json", "--config", str(observer)])
            return finds_replicas_lacking(capsys.readouterr().out)

        waits(is_well)
        assert denied(secured) == []
        for number in (3, 0):  # who has taken over, and who follows it now
            assert [each for user in grants.USERS for each in not_refused(secured, number, user)] == []
