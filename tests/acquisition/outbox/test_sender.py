"""The way to the owner of a partition, step by step, against shards that misbehave."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import select
import signal
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Iterator

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address, Connection, ReplyError, pack
from acquisition.link.trust.credentials import Credentials
from acquisition.outbox.link.connection import Lookup
from acquisition.outbox.link.sender import Sender
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys
from tests.support.fixture_types import StartCluster
from tests.support.processes import slept
from tests.support.waiting import PATIENCE, eventually

HOST = 3


def advance_until(sender: Sender, done: Callable[[], bool], seconds: float = PATIENCE) -> float:
    """Returns the moment of the last step, by which the next one is due."""
    now = time.monotonic()
    deadline = now + seconds
    while not done():
        assert time.monotonic() < deadline, f"{sender.problem} {sender.errors}"
        if not sender.ready:
            now = time.monotonic()
            sender.advance(now)
        poll = select.poll()
        if sender.fileno() >= 0:
            poll.register(sender.fileno(), sender.events())
        poll.poll(2)
    return now


@contextlib.contextmanager
def stopped(pids: Iterable[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def make() -> Iterator[Callable[..., Sender]]:
    made: list[Sender] = []

    def build(
        seeds: list[Address], host: int = HOST, credentials: Credentials | None = None, timeout: float = PATIENCE
    ) -> Sender:
        made.append(Sender(host, seeds, credentials, timeout))
        return made[-1]

    yield build
    for sender in made:
        sender.close()


Make = Callable[..., Sender]


class Impostor:
    """A server that answers what it is told, to play shards that real ones cannot be made to be."""

    def __init__(self, *answers: bytes) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._answers = list(answers)
        self._peers: list[socket.socket] = []
        self.connections = 0
        self.address = Address(*self._server.getsockname())

    def turn(self) -> bool:
        """Accept, and answer every write with the next answer. Always False, for ``advance_until``."""
        try:
            peer, _ = self._server.accept()
            peer.setblocking(False)
            self._peers.append(peer)
            self.connections += 1
        except BlockingIOError:
            pass
        for peer in self._peers:
            try:
                if peer.recv(65536) and self._answers:
                    peer.sendall(self._answers.pop(0))
            except BlockingIOError:
                pass
        return False

    def close(self) -> None:
        for peer in (*self._peers, self._server):
            peer.close()


@pytest.fixture
def impostor() -> Iterator[Callable[..., Impostor]]:
    made: list[Impostor] = []

    def build(*answers: bytes) -> Impostor:
        made.append(Impostor(*answers))
        return made[-1]

    yield build
    for one in made:
        one.close()


_DOCUMENT = b'{"format":1,"partitions":64,"record_format":3,"x": "y"}'
LAYOUT = b"$%d\r\n%b\r\n" % (len(_DOCUMENT), _DOCUMENT)


def slots(host: bytes, port: int) -> bytes:
    return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%d\r\n" % (len(host), host, port)


@pytest.mark.parametrize("host", range(8))
def test_every_host_finds_its_owner_from_any_seed(make: Make, cluster: Cluster, shards: Shards, host: int) -> None:
    owner = cluster.owner(keys.raw(read_layout(cluster).tag_of(host)))
    for seed in shards.addresses:
        sender = make([seed], host)
        advance_until(sender, lambda sender=sender: sender.ready)
        assert (sender.address, sender.problem, sender.errors) == (owner, "", {})
        assert sender.tag == read_layout(cluster).tag_of(host)


def test_who_is_hung_up_on_by_a_living_shard_asks_no_other_one(make: Make, start_cluster: StartCluster) -> None:
    shards = start_cluster(2)  # to which nobody else connects
    sender = make(shards.addresses)
    advance_until(sender, lambda: sender.ready)
    owner = sender.address
    assert owner is not None
    with contextlib.closing(Connection(owner)) as link:
        before = received(shards)
        with socket.socket(fileno=os.dup(sender.fileno())) as made:
            own = ":".join(map(str, made.getsockname()))
        link.call("CLIENT", "KILL", own)
        eventually(lambda: not sender.ready, meanwhile=lambda: sender.receive(time.monotonic()))
        advance_until(sender, lambda: sender.ready)
    new = {address: count - before[address] - 1 for address, count in received(shards).items()}
    assert new == {address: int(address == owner) for address in shards.addresses}
    assert (sender.address, sender.errors) == (owner, {"closed": 1})


def test_dead_seeds_are_passed_over(make: Make, cluster: Cluster, shards: Shards) -> None:
    sender = make([Address("127.0.0.1", 1), Address("127.0.0.1", 2), shards.addresses[0]])
    advance_until(sender, lambda: sender.ready)
    assert sender.errors.get("refused", 0) <= 4


def test_seed_by_name(make: Make, cluster: Cluster, shards: Shards) -> None:
    sender = make([Address("localhost", shards.addresses[0].port)])
    advance_until(sender, lambda: sender.ready)


@pytest.mark.alone
def test_name_that_does_not_exist(make: Make) -> None:
    """However long the name server takes, no call waits for it."""
    sender = make([Address("no-such-host.invalid", 1)], timeout=0.3)
    slowest = 0.0

    def failed() -> bool:
        nonlocal slowest
        before = slept()
        sender.advance(time.monotonic())
        slowest = max(slowest, slept() - before)
        return bool(sender.errors)

    advance_until(sender, failed)
    assert set(sender.errors) <= {"lookup", "timeout"}
    assert slowest < 0.1


def test_replies_after_ready(make: Make, cluster: Cluster, shards: Shards) -> None:
    sender = make(shards.addresses)
    advance_until(sender, lambda: sender.ready)
    sender.send(pack(("ECHO", "a")) + pack(("NO SUCH",)), time.monotonic())
    replies: list[object] = []

    def received() -> bool:
        replies.extend(sender.receive(time.monotonic()))
        return len(replies) == 2

    advance_until(sender, received)
    assert replies[0] == b"a"
    assert isinstance(replies[1], ReplyError)


@pytest.mark.alone
def test_silent_shard_is_abandoned_and_retried_with_backoff(make: Make, impostor: Callable[..., Impostor]) -> None:
    silent = impostor()
    sender = make([silent.address], timeout=0.3)
    now = 1000.0
    waits = []
    for failures in range(1, 28):
        while sender.errors.get("timeout", 0) < failures:
            silent.turn()
            sender.advance(now)
            now += 0.05
        waits.append(sender.due - now)
    assert "timed out" in sender.problem
    assert waits[0] < 0.1
    assert all(0.2 <= wait <= 0.5 for wait in waits[5:24])  # a replica may be taking over
    assert all(0.8 <= wait <= 2.0 for wait in waits[24:])


def test_two_hosts_do_not_knock_in_step(make: Make) -> None:
    dues = set()
    for host in range(20):
        sender = make([Address("127.0.0.1", 1)], host)
        for _ in range(10):
            sender.advance(sender.due)
        dues.add(round(sender.due, 3))
    assert len(dues) > 15


def test_shard_that_hangs_up_while_it_is_asked(make: Make, impostor: Callable[..., Impostor]) -> None:
    rude = impostor()
    sender = make([rude.address])
    advance_until(sender, lambda: rude.turn() or rude.connections == 1)
    rude.close()
    advance_until(sender, lambda: bool(sender.errors))
    assert set(sender.errors) <= {"closed", "refused"}


@pytest.mark.parametrize(
    ("answer", "kind", "slow"),
    [
        (b"-LOADING Redis is loading\r\n", "loading", False),
        (b"-CLUSTERDOWN no\r\n", "clusterdown", False),
        (b"-ERR This instance has cluster support disabled\r\n", "err", True),
        (b"-NOPERM no\r\n", "noperm", True),
        (b"*0\r\n" + LAYOUT, "clusterdown", False),
        (b"*0\r\n$-1\r\n", "layout", False),
        (slots(b"127.0.0.1", 1) + b"$2\r\n{}\r\n", "layout", False),
        (slots(b"127.0.0.1", 1) + LAYOUT, "refused", False),
        (b"*1\r\n:5\r\n" + LAYOUT, "protocol", True),
        (b"$2\r\nno\r\n" + LAYOUT, "protocol", True),
        (b"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n" + LAYOUT, "protocol", True),
    ],
)
def test_answers_that_do_not_help(
    make: Make, impostor: Callable[..., Impostor], answer: bytes, kind: str, slow: bool
) -> None:
    odd = impostor(answer)
    sender = make([odd.address])
    failed = advance_until(sender, lambda: odd.turn() or bool(sender.errors))
    assert sender.errors == {kind: 1}
    assert sender.problem
    assert not sender.ready
    assert (sender.due - failed > 2.0) == slow


@pytest.mark.parametrize("name", [b"", b"?"])
def test_shard_that_does_not_know_its_own_address(make: Make, impostor: Callable[..., Impostor], name: bytes) -> None:
    shy = impostor()
    shy._answers.append(slots(name, shy.address.port) + LAYOUT)
    sender = make([shy.address])
    advance_until(sender, lambda: shy.turn() or sender.ready)
    assert sender.address == shy.address


def test_moved_leads_straight_to_the_new_owner(make: Make, impostor: Callable[..., Impostor]) -> None:
    old, new = impostor(), impostor()
    old._answers.append(slots(b"127.0.0.1", old.address.port) + LAYOUT)
    new._answers.append(slots(b"127.0.0.1", new.address.port))
    sender = make([old.address])
    advance_until(sender, lambda: old.turn() or sender.ready)
    sender.succeed(took=True)
    sender.refuse(ReplyError(f"MOVED 1 127.0.0.1:{new.address.port}"), time.monotonic())
    assert not sender.ready
    advance_until(sender, lambda: new.turn() or sender.ready)
    assert (sender.address, sender.errors, old.connections) == (new.address, {"moved": 1}, 1)


def test_shards_that_send_each_other_hosts_in_a_circle(make: Make, impostor: Callable[..., Impostor]) -> None:
    """Each says that the other is the owner: no loop without a pause."""
    one, two = impostor(), impostor()
    one._answers += [slots(b"127.0.0.1", two.address.port) + LAYOUT] * 50
    two._answers += [slots(b"127.0.0.1", one.address.port)] * 50
    sender = make([one.address, two.address])
    end = time.monotonic() + 0.5
    advance_until(sender, lambda: one.turn() or two.turn() or time.monotonic() > end)
    if sender.ready:
        now = time.monotonic()
        for _ in range(30):
            sender.refuse(ReplyError(f"MOVED 1 {one.address}"), now)
        assert sender.due > now + 0.5
    assert one.connections + two.connections < 30


def received(shards: Shards) -> dict[Address, int]:
    """How many connections each shard that answers has been asked for."""
    found = {}
    for shard in shards.alive:
        with contextlib.closing(Connection(shard.address)) as connection:
            (line,) = re.findall(rb"total_connections_received:(\d+)", connection.call("INFO", "stats"))
            found[shard.address] = int(line) - 1  # without ours
    return found


def run_all(senders: list[Sender], done: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Serve all of them until ``done`` or for so long; whether it is done."""
    deadline = time.monotonic() + seconds
    while not done():
        now = time.monotonic()
        if now >= deadline:
            return False
        poll = select.poll()
        for sender in senders:
            if not sender.ready:
                sender.advance(now)
                if sender.fileno() >= 0:
                    poll.register(sender.fileno(), sender.events())
        poll.poll(5)
    return True


@pytest.mark.parametrize(("order", "connections"), [(1, 1), (-1, 2)])
def test_cold_start_uses_one_connection_per_asked_shard(
    make: Make, start_cluster: StartCluster, order: int, connections: int
) -> None:
    """The owner alone, where seeds are named in the order of their slots; else another one before it: a copy of the
    layout lies on each."""
    shards = start_cluster(2)  # to which nobody else connects
    before = received(shards)
    senders = [make(shards.addresses[::order], host) for host in range(60)]
    assert run_all(senders, lambda: all(sender.ready for sender in senders))
    made = {address: count - before[address] - 1 for address, count in received(shards).items()}
    assert all(not sender.errors for sender in senders)
    assert sum(made.values()) == connections * len(senders)


def test_host_of_dead_owner_asks_one_live_shard(make: Make, start_cluster: StartCluster) -> None:
    shards = start_cluster(2)
    senders = [make(shards.addresses, host) for host in range(40)]
    assert run_all(senders, lambda: all(sender.ready for sender in senders))
    dead, living = shards.addresses
    orphans = [sender for sender in senders if sender.address == dead]
    assert orphans
    os.kill(shards.pids[0], signal.SIGKILL)
    eventually(lambda: len(shards.alive) == 1)
    before = received(shards)[living]
    began = time.monotonic()
    for sender in orphans:
        sender.fail("closed", "the shard is dead", began)
    assert run_all(orphans, lambda: all(sender.errors.get("refused", 0) >= 6 for sender in orphans))
    guides = 1 + int((time.monotonic() - began) / 6.0)  # one for each of their lives
    made = received(shards)[living] - before - 1
    assert made <= guides * len(orphans), (made, len(orphans))


def test_guide_names_another_owner_while_first_is_silent(make: Make, impostor: Callable[..., Impostor]) -> None:
    with socket.socket() as deaf, socket.socket() as other:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        other.setblocking(False)
        other.connect_ex(deaf.getsockname())  # the queue is full: whoever comes now waits
        guide = impostor()
        guide._answers += [slots(b"127.0.0.1", deaf.getsockname()[1]) + LAYOUT, slots(b"127.0.0.1", guide.address.port)]
        sender = make([guide.address], timeout=60.0)
        advance_until(sender, lambda: guide.turn() or sender.ready)
    assert (sender.address, guide.connections, sender.errors) == (guide.address, 1, {})


def test_who_has_just_failed_is_not_asked_first(make: Make, start_cluster: StartCluster) -> None:
    """A shard that hangs would be waited for, while the others know who takes over."""
    shards = start_cluster(2)
    senders = [make(shards.addresses, host) for host in range(6)]
    assert run_all(senders, lambda: all(sender.ready for sender in senders))
    with stopped(shards.pids):  # nobody answers: who is asked first stays the one that is asked
        for sender in senders:
            failed = sender.address
            sender.fail("timeout", "it hangs", time.monotonic())
            sender.advance(sender.due)
            assert sender.address != failed


def test_a_guide_that_goes_away_is_replaced(make: Make, impostor: Callable[..., Impostor]) -> None:
    first, second = impostor(slots(b"127.0.0.1", 1) + LAYOUT), impostor()
    second._answers.append(slots(b"127.0.0.1", second.address.port))
    sender = make([first.address, second.address], host=0)
    advance_until(sender, lambda: first.turn() or sender.errors.get("refused", 0) >= 1)
    first.close()
    advance_until(sender, lambda: second.turn() or sender.ready)
    assert sender.address == second.address


def test_lookups_that_fail_leave_nothing_behind() -> None:
    """A probe collects no cycles: an error that is kept with its traceback would stay for ever."""
    gc.collect()
    gc.disable()
    try:
        lookup = Lookup(Address("no-such-host.invalid", 1))
        gone = weakref.ref(lookup)
        end = time.monotonic() + 30.0
        while lookup.found is None and time.monotonic() < end:
            time.sleep(0.01)
        assert isinstance(lookup.found, OSError)
        del lookup
        while gone() is not None and time.monotonic() < end:  # its thread may be about to end
            time.sleep(0.01)
        assert gone() is None
    finally:
        gc.enable()
