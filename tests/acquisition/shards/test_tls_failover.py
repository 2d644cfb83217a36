"""Over TLS with the users of each part: a replica takes over from a dead master, which comes back and follows it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Connection
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers import grants
from acquisition.shards.topology import join
from acquisition.wire import keys
from experiments.processes.access import MASTER_KEY
from tests.support import parts
from tests.support.applied import sequence_of
from tests.support.beyond import beyond
from tests.support.forbidden import refused
from tests.support.processes import started
from tests.support.tls_cluster import LACK, Secured, command_in, denied, finds_replicas_lacking, host_on, tls_cluster

_PATIENT = 60.0
_SET = resource_set_id("host")


def applied(cluster: Cluster, name: str) -> int:
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
def test_users_continue_at_replica_and_dead_master_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.ExitStack() as stack:
        secured = stack.enter_context(tls_cluster(tmp_path / "shards"))
        reader = secured.credentials(grants.READER)
        cluster = stack.enter_context(contextlib.closing(Cluster(secured.addresses, reader)))
        name = host_on(cluster, secured.addresses[0])
        more = f'[host]\nname = "{name}"\n[probe]\ninterval_seconds = 0.2\nring_path = "{tmp_path}/ring"\n'
        more += f'[archive]\nurl = "{tmp_path}/archive.db"\n'
        commands = [(words, tmp_path / f"{words[0]}.toml") for words in (["filter"], ["probe"], ["archive", "run"])]
        for (user, *_), config in commands:
            config.write_text(secured.access.section(user, secured.addresses, more))
        running = stack.enter_context(parts.running(commands, tmp_path))
        running.until(lambda: applied(cluster, name) > 5)
        before = applied(cluster, name)
        secured.children[0].kill()
        secured.children[0].wait()
        running.until(lambda: applied(cluster, name) > before + 5)
        assert cluster.owner(keys.raw(read_layout(cluster).tag_of(host_id(name)))) == secured.addresses[3]
        home = tmp_path / "shards" / "shard-0"
        log = stack.enter_context((home / "log").open("ab"))
        stack.enter_context(started(command_in(home), stdout=log, cwd=home))
        running.until(lambda: follows(secured))
        assert len({listed(secured, number) for number in range(4)}) == 1
        observer = tmp_path / "observer.toml"
        observer.write_text(secured.access.section(grants.OBSERVER, secured.addresses))

        def is_well() -> bool:
            capsys.readouterr()
            shardpulse(["status", "--json", "--config", str(observer)])
            return finds_replicas_lacking(capsys.readouterr().out)

        running.until(is_well)
        assert denied(secured) == []
        for number in (3, 0):  # who has taken over, and who follows it now
            assert [each for user in grants.USERS for each in not_refused(secured, number, user)] == []
