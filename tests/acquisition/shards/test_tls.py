"""The pipeline over TLS 1.3 with the users of each part, and what is said where TLS fails."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from acquisition.certificates import files, making
from acquisition.cli import main as shardpulse
from acquisition.errors import ConfigError, ShardError, ShardpulseError
from acquisition.link import resp
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address, Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.outbox.link.sender import Sender
from acquisition.shards.servers import grants, machine
from acquisition.shards.topology import join, reshard
from acquisition.shards.topology.migrate import Mover
from acquisition.shards.topology.nodes import Members, owners
from acquisition.wire import keys, layout
from acquisition.wire.records.record_format import NEWEST
from experiments.processes.access import MASTER_KEY
from filters.worker.loop.channel import Outgoing
from tests.support import ROOT, layouts, parts
from tests.support.processes import started
from tests.support.tls_cluster import LACK, NAME, Secured, command_with_tls, denied, finds_replicas_lacking, tls_cluster
from tests.support.waiting import eventually

if LACK:
    pytest.skip(LACK, allow_module_level=True)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with tls_cluster(tmp_path_factory.mktemp("tls"), spare=2) as made:
        yield made


# ------------------------------------------------------------------ what works


def test_clients_are_told_names_and_tls_ports(secured: Secured) -> None:
    with contextlib.closing(Cluster(secured.addresses[:1], secured.credentials(grants.READER))) as cluster:
        assert sorted(cluster.masters()) == sorted(secured.addresses[:3])
        assert read_layout(cluster).partitions == keys.DEFAULT_PARTITIONS
    with Members(secured.addresses[:1], secured.credentials(grants.OBSERVER)) as members:
        everybody = set(secured.addresses)  # names are gossip: a shard is known by its address first
        eventually(lambda: {node.address for node in members.look()} == everybody and not members.silent)


def test_a_replica_follows_over_tls_as_its_user(secured: Secured) -> None:
    with join.administer(secured.addresses[3], credentials=secured.credentials(grants.OPERATOR)) as client:
        assert join.in_sync(client)


def test_replies_and_commands_of_many_records_arrive_whole(secured: Secured) -> None:
    value = bytes(range(256)) * 4000
    with contextlib.closing(Cluster(secured.addresses[:1], secured.credentials(grants.OPERATOR), 20)) as cluster:
        key = "smoothed:{0}:large"
        connection = cluster.connect(cluster.owner(key))
        with contextlib.closing(connection):
            connection.call("SET", key, value)
            assert connection.pipeline([("GET", key)] * 3) == [value] * 3
            parts = [b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$3\r\n" % (len(key), key.encode()), b"xyz", b"\r\n"]
            assert connection.send_some(parts) == sum(map(len, parts))
            assert connection.receive() == b"OK"


def test_commands_that_a_shard_takes_little_by_little_arrive_whole(secured: Secured) -> None:
    key = "smoothed:{0}:larger"
    piece = resp.pack(("SET", key, bytes(1 << 20)))
    last = resp.pack(("SET", key, bytes([23]) * (1 << 20)))
    replies: list[object] = []
    with contextlib.closing(Cluster(secured.addresses[:1], secured.credentials(grants.OPERATOR), 20)) as cluster:
        with contextlib.closing(cluster.connect(cluster.owner(key))) as connection:
            connection.settimeout(0.0)
            outgoing = Outgoing(connection)
            sent = 0
            while not outgoing:  # more than sockets hold, and than the shard takes meanwhile
                outgoing.put([piece] * 20)
                sent += 20
                assert sent < 1000
            outgoing.put([last])
            eventually(lambda: not outgoing, meanwhile=outgoing.go_on)
            eventually(lambda: len(replies) == sent + 1, meanwhile=lambda: replies.extend(connection.poll()))
            assert replies == [b"OK"] * (sent + 1)
        assert cluster.call(key, "GET", key) == bytes([23]) * (1 << 20)


#: Who asks what, once.
_SHOWN = [
    (grants.READER, "query", "--latest"), (grants.READER, "query"), (grants.READER, "query", "hot"),
    (grants.READER, "top", "--json"), (grants.READER, "metrics"),
]  # fmt: skip
#: What runs, by user; two that share their work ask more of the shards than one.
_PARTS = [("filter",), ("filter",), ("probe",), ("serve",), ("archive", "run"), ("archive", "run")]
_SERVED = ["/v1/snapshot", "/v1/hot", "/v1/moves", "/v1/migrations", "/v1/status", "/metrics"]


def test_the_pipeline_works_over_tls_and_is_refused_nothing(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (
        f'[probe]\ninterval_seconds = 0.5\nring_path = "{tmp_path}/ring"\nposition_interval_seconds = 0.5\n'
        f'[filter]\nretention_seconds = 0.0\nlease_seconds = 0.5\n[serve]\nbind = "127.0.0.1:0"\n'
        f'[archive]\nurl = "{tmp_path}/archive.db"\n'
    )
    configs = {user: tmp_path / f"{user}.toml" for user in grants.USERS}
    for user, path in configs.items():
        path.write_text(secured.configure(user, more))
    commands = [(words, configs[words[0]]) for words in _PARTS]
    with parts.running(commands, tmp_path) as running:

        def shows(user: str, *arguments: str) -> bool:
            capsys.readouterr()
            return shardpulse([*arguments, "--config", str(configs[user])]) == 0

        def is_well() -> bool:
            shows(grants.OBSERVER, "status", "--json")
            return finds_replicas_lacking(capsys.readouterr().out)

        for user, *arguments in _SHOWN:
            running.until(lambda user=user, arguments=arguments: shows(user, *arguments))  # type: ignore[misc]
        running.until(is_well)
        shows(grants.OBSERVER, "status")
        shown = capsys.readouterr().out
        assert "3 of 3 masters" in shown
        assert "127.0.0.1" not in shown  # all are known by the name in their certificates
        place = running.place()
        for path in _SERVED:
            running.until(lambda path=path: parts.answers(place + path))  # type: ignore[misc]
        with contextlib.closing(Cluster(secured.addresses, secured.credentials(grants.READER))) as cluster:
            names = [keys.readers(tag) for tag in keys.tags(keys.DEFAULT_PARTITIONS)]
            asked = [(name, ("HGETALL", name)) for name in names]
            running.until(lambda: all(cluster.gather(asked)))
    assert denied(secured) == [], running.said()


def test_shards_of_others_are_shown_and_balanced_by_their_addresses(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "operator.toml"
    config.write_text(secured.configure(grants.OPERATOR, "timeout_seconds = 20.0\n"))

    def run(*arguments: str) -> Any:
        capsys.readouterr()
        told = ["--addresses", str(secured.addresses[0]), "--config", str(config), "--json"]
        assert shardpulse(["shards", *arguments, *told]) == 0
        return json.loads(capsys.readouterr().out)

    def shown() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = run("status")["shards"]
        return rows

    eventually(lambda: {row["address"] for row in shown()} == set(map(str, secured.addresses)))
    rows = {row["address"]: row for row in shown()}
    assert [rows[str(address)]["role"] for address in secured.addresses] == ["master"] * 3 + ["replica"]
    assert rows[str(secured.addresses[3])]["replica_of"] == str(secured.addresses[0])
    assert "pid" not in rows[str(secured.addresses[0])]
    assert run("form")["shards"]  # it is one cluster already
    with Members(secured.addresses[:1], secured.credentials(grants.OPERATOR)) as members:
        mover = Mover(members, str)
        nodes = mover.look()
        masters = [node.id for node in nodes if not node.master]
        plan = reshard.emptied(owners(nodes), masters, masters[0], keys.DEFAULT_PARTITIONS)
        assert mover.run(plan[:4]).partitions == 4
    assert run("balance")["partitions"] >= 3  # give or take one
    assert sum(row["slots"] for row in shown() if row["role"] == "master") == keys.SLOTS


def test_shards_of_others_are_added_emptied_and_removed(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "operator.toml"
    config.write_text(secured.configure(grants.OPERATOR, "timeout_seconds = 20.0\n"))
    newcomer, replica = map(str, secured.spare)
    values = {f"commit:{{{tag}}}:test": tag.encode() for tag in keys.tags(keys.DEFAULT_PARTITIONS)}

    def run(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        told = ["--addresses", str(secured.addresses[0]), "--config", str(config), "--json"]
        assert shardpulse(["shards", *arguments, *told]) == code
        said = capsys.readouterr()
        return said.err if code else json.loads(said.out)

    def shown() -> dict[str, dict[str, Any]]:
        return {row["address"]: row for row in run("status")["shards"]}

    with contextlib.closing(Cluster(secured.addresses, secured.credentials(grants.OPERATOR), 20)) as cluster:
        for name, value in values.items():
            cluster.call(name, "SET", name, value)
        before = {address: row["slots"] for address, row in shown().items()}
        assert set(before) == set(map(str, secured.addresses))
        added = run("add", newcomer, replica)
        assert (added["action"], added["shard"], added["partitions"]) == ("add", newcomer, 16)
        assert added["keys"] >= 16
        assert run("add", newcomer, replica)["partitions"] == 0  # it is there
        rows = shown()
        assert rows[newcomer]["slots"] == keys.SLOTS // 4
        assert (rows[replica]["replica_of"], rows[replica]["in_sync"]) == (newcomer, True)
        assert run("drain", newcomer)["partitions"] == 16
        rows = shown()
        assert (rows[newcomer]["slots"], rows[newcomer]["role"], rows[replica]["replica_of"]) == (0, "master", newcomer)
        assert run("balance")["partitions"] == 16
        assert shown()[newcomer]["slots"] == keys.SLOTS // 4
        assert run("remove", newcomer)["partitions"] == 16
        assert sorted(shown()) == sorted(before)
        assert f"unknown shard {newcomer}; shards are " in run("remove", newcomer, code=2)
        assert {name: cluster.call(name, "GET", name) for name in values} == values
        for one in secured.spare:  # they know nobody, so that they can be taken again
            with contextlib.closing(Connection(one, secured.credentials(grants.OPERATOR))) as connection:
                assert connection.call("CLUSTER", "NODES").count(b"\n") == 1
        for name in values:
            cluster.call(name, "SET", name, "", "PX", 1)


def test_the_record_format_is_raised_over_tls_while_a_filter_runs(secured: Secured, tmp_path: Path) -> None:
    """By the version that knows the next one, as the operator: the running filter of that version follows."""

    def command(user: str, *words: str) -> list[str]:
        config = tmp_path / f"{user}.toml"
        config.write_text(secured.configure(user, "timeout_seconds = 20.0\n[filter]\nlease_seconds = 0.5\n"))
        return [sys.executable, "-m", "tests.support.next_version", *words, "--config", str(config)]

    before = {"record_format": NEWEST + 1, "before": NEWEST}
    user = secured.credentials(MASTER_KEY)
    with (
        contextlib.closing(Cluster(secured.addresses, user, 20)) as cluster,
        (tmp_path / "said").open("wb") as said,
        started(command(grants.FILTER, "filter"), cwd=ROOT, stderr=said) as filtering,
    ):
        found = read_layout(cluster)
        heard = (tmp_path / "said").read_text
        try:
            eventually(lambda: "smoothing 64 partitions" in heard(), says=heard)
            for expected in (before, before | {"before": NEWEST + 1}):
                words = command(grants.OPERATOR, "shards", "upgrade", "--json")
                done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
                assert done.returncode == 0, done.stderr
                assert json.loads(done.stdout) == expected
            eventually(lambda: f"now writing records of format {NEWEST + 1}" in heard(), says=heard)
            assert filtering.poll() is None
            written = cluster.gather([(copy, ("GET", copy)) for copy in keys.layouts()])
            assert {layout.decode(copy).record_format for copy in written} == {NEWEST + 1}
        finally:
            layouts.put(cluster, layout.encode(found))
    assert denied(secured) == []


# ------------------------------------------------------------------ what fails


@pytest.fixture(scope="module")
def doubtful(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Address]]:
    """A server whose certificate can be exchanged, with a port without TLS: where it has the one that is named."""
    place = tmp_path_factory.mktemp("doubtful")
    now, authority = datetime.now(UTC).replace(microsecond=0), secured.access.authority
    files.write(making.issue(authority, [NAME], now - timedelta(days=9), 8), place, "expired")
    files.write(making.issue(authority, [NAME], now + timedelta(days=2), 8), place, "early")
    files.write(making.issue(authority, ["elsewhere.example.org"], now, 8), place, "other")
    files.write(making.issue(making.authority(making.SHARDS, now, 9), [NAME], now, 8), place, "stranger")
    plain, port = machine.free_ports(1)[0], machine.free_tls_port()
    chosen = ["--tls-cert-file", str(place / "other.pem"), "--tls-key-file", str(place / "other.key")]
    command = [*command_with_tls(), "--port", str(plain), "--tls-port", str(port), "--save", "", *chosen]
    command += ["--tls-ca-cert-file", str(secured.ca), "--tls-auth-clients", "no", "--dir", str(place)]
    with started(command, stdout=subprocess.DEVNULL):
        connection = eventually(lambda: _connected(Address("127.0.0.1", plain)))

        def choose(name: str) -> Address:
            if name == "plain":
                return Address(NAME, plain)
            pair = ("tls-cert-file", str(place / f"{name}.pem"), "tls-key-file", str(place / f"{name}.key"))
            assert connection.call("CONFIG", "SET", *pair) == b"OK"
            return Address(NAME, port)

        with contextlib.closing(connection):
            yield choose


def _connected(address: Address) -> Connection | None:
    with contextlib.suppress(ShardpulseError):
        return Connection(address)
    return None


_FAILURES = [
    ("expired", "has a certificate that has expired: issue a new one"),
    ("early", "has a certificate that is not valid yet: check the clocks"),
    (
        "other",
        f"has a certificate for names other than {NAME}: use one of those, or issue a certificate that "
        "includes this name",
    ),
    ("stranger", "has a certificate from an authority that is not in"),
    ("plain", ": use its TLS port, or unset [shards] tls_ca"),
]


@pytest.mark.parametrize(("kind", "told"), _FAILURES)
def test_what_is_wrong_is_said_in_one_line(
    secured: Secured, doubtful: Callable[[str], Address], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    kind: str, told: str,
) -> None:  # fmt: skip
    address = doubtful(kind)
    seconds = 0.5 if kind == "plain" else 20.0  # it does not answer
    config = tmp_path / "shardpulse.toml"
    text = secured.configure(grants.READER, f"timeout_seconds = {seconds}\n")
    config.write_text(text.replace(str(secured.addresses[0]), str(address)))
    assert shardpulse(["query", "--config", str(config)]) == 69
    said = capsys.readouterr().err
    assert f"shard {address} " in said
    assert told in said
    assert said.count("\n") == 1
    assert told in problem_of(Sender(1, [address], secured.credentials(grants.PROBE), seconds))
    with (
        pytest.raises(ShardpulseError),
        join.clients_of([address], seconds, secured.credentials(grants.OPERATOR)) as (one,),
    ):
        one.ping()


def test_a_client_without_tls_is_told_to_use_it(secured: Secured) -> None:
    address, user = secured.addresses[0], secured.credentials(grants.READER)._replace(authority="")
    with pytest.raises(ShardpulseError, match=r"if it requires TLS, set \[shards\] tls_ca"):
        Connection(address, user)
    said = problem_of(Sender(1, [address], user, 20.0))
    assert "if it requires TLS, set [shards] tls_ca" in said


def test_a_name_that_the_certificate_lacks(secured: Secured) -> None:
    by_address = Address("127.0.0.1", secured.addresses[0].port)
    with pytest.raises(ShardpulseError, match="certificate for names other than 127\\.0\\.0\\.1"):
        Connection(by_address, secured.credentials(grants.READER))


def test_a_connection_that_was_ended_is_said_to_be(secured: Secured) -> None:
    address, everything = secured.addresses[0], secured.credentials(MASTER_KEY)
    first, second = Connection(address, everything), Connection(address, everything)
    with contextlib.closing(first) as one, contextlib.closing(second) as other:
        other.call("CLIENT", "KILL", "ID", one.call("CLIENT", "ID"))
        with pytest.raises(ShardError, match=f"{address}: .*Connection reset by peer"):
            eventually(lambda: one.send(b"PING\r\n"))  # the kernel takes what is sent until it has heard of the end


def test_a_wrong_password_and_a_revoked_user(secured: Secured) -> None:
    for user in (
        secured.credentials(grants.PROBE)._replace(password="x"),
        secured.credentials(grants.PROBE)._replace(username="gone"),
    ):
        with pytest.raises(ShardpulseError, match=r"WRONGPASS.*; set \[shards\] username and password_file"):
            Connection(secured.addresses[0], user)
        assert "WRONGPASS" in problem_of(Sender(1, [secured.addresses[0]], user, 20.0))


def test_off_loopback_nothing_is_said_without_tls_and_a_user(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "is not on loopback: TLS and a user are required; set [shards] tls_ca, username and password_file"
    user = secured.credentials(grants.READER)
    with beyond_loopback() as server:
        address = Address(*server.getsockname()[:2])
        for known in (None, Credentials(), user._replace(authority=""), user._replace(password="")):
            with pytest.raises(ConfigError) as error:
                Connection(address, known)
            assert str(error.value) == f"shard {address} {told}"
            assert told in problem_of(Sender(1, [address], known, 20.0))
        refused = pytest.raises(ShardpulseError, match="TLS and a user are required")
        with refused, join.clients_of([address], 20.0) as (client,):
            client.ping()
        config = tmp_path / "shardpulse.toml"
        config.write_text(f'[shards]\naddresses = ["{address}"]\n')
        there = ["--addresses", str(address)]
        for command in (
            ["query"], ["status"], ["top", "--json"], ["metrics"], ["archive", "status"], ["shards", "upgrade"],
            *(["shards", name, *there] for name in ("status", "form", "balance", "certificates")),
            ["filter", "--wait", "0.2"], ["serve", "--wait", "0.2"],
        ):  # fmt: skip
            assert shardpulse([*command, "--config", str(config)]) == 78, command
            assert told in capsys.readouterr().err, command
        server.settimeout(0.0)
        with contextlib.suppress(BlockingIOError):
            while True:
                assert heard(server.accept()[0]) == b""


@contextlib.contextmanager
def beyond_loopback() -> Iterator[socket.socket]:
    """Somebody who listens at an address of this machine that others reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route, socket.socket() as server:
        try:
            route.connect(("198.51.100.1", 9))  # sends nothing
            server.bind((route.getsockname()[0], 0))
        except OSError as error:
            pytest.skip(f"this machine has no address but loopback: {error}")
        server.listen(64)
        yield server


def heard(connection: socket.socket) -> bytes:
    """What a client has sent before it hung up."""
    with connection:
        connection.settimeout(20)
        return connection.recv(100)


@pytest.mark.parametrize(
    ("text", "mode", "code", "said"),
    [(None, 0, 78, "cannot be read: No such file"), ("nothing", 0o644, 78, "contains no certificate"),
     ("CA", 0o666, 78, "writable by other users")],
)  # fmt: skip
def test_an_authority_that_is_none(
    secured: Secured,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    mode: int,
    code: int,
    said: str,
) -> None:
    ca, config = tmp_path / "ca.pem", tmp_path / "shardpulse.toml"
    if text is not None:
        ca.write_text(secured.ca.read_text() if text == "CA" else text)
        ca.chmod(mode)
    config.write_text(secured.configure(grants.READER).replace(str(secured.ca), str(ca)))
    for command in (["query"], ["probe", "--ticks", "1"]):
        assert shardpulse([*command, "--config", str(config)]) == code
        told = capsys.readouterr().err
        assert "key shards.tls_ca" in told
        assert said in told
        assert told.count("\n") == 1


def problem_of(sender: Sender) -> str:
    """Why a probe's connection cannot be had."""
    deadline = time.monotonic() + 20
    while not sender.errors and time.monotonic() < deadline:
        sender.advance(time.monotonic())
        if sender.fileno() >= 0:
            poll = select.poll()
            poll.register(sender.fileno(), sender.events())
            poll.poll(100)
    sender.close()
    return sender.problem


def test_a_handshake_that_waits_for_those_of_others_is_waited_for(secured: Secured, tmp_path: Path) -> None:
    """A shard makes one at a time: to give up and start again would only make it more."""
    timeout = 2.0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.access.certify(tmp_path, [NAME], "late")
    context.load_cert_chain(tmp_path / "late.pem", tmp_path / "late.key")
    heard: list[bytes] = []

    def answer_late() -> None:
        time.sleep(1.2 * timeout)
        plain, _ = server.accept()
        with plain, context.wrap_socket(plain, server_side=True) as peer:
            heard.append(peer.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_late, daemon=True)
        thread.start()
        address = Address(NAME, server.getsockname()[1])
        sender = Sender(3, [address], secured.credentials(grants.PROBE), timeout)
        while thread.is_alive():
            sender.advance(time.monotonic())
            assert not sender.errors or heard, sender.problem
            thread.join(0.05)
        sender.close()
    assert heard[0].startswith(b"*")
