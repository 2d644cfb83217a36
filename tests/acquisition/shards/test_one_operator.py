"""One operator at a time: a note in real shards keeps others away, ends with its owner, and is defended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.cli import main as shardpulse
from acquisition.errors import FrameError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.shards.servers import machine
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.shards.topology import one_operator
from acquisition.wire import keys, lease
from acquisition.wire.lease import Operating
from tests.support.processes import started
from tests.support.waiting import eventually

_WORK = """
import sys, time
from acquisition.errors import ShardpulseError
from acquisition.link.resp import parse_address
from acquisition.shards.topology import one_operator
try:
    with one_operator.only([parse_address(sys.argv[1])], None, "shards drain somewhere", print, float(sys.argv[2])):
        print("at work", flush=True)
        time.sleep(60)
except ShardpulseError as error:
    print(error, flush=True)
    sys.exit(error.exit_code)
"""
NOTE = Operating("0123456789abcdef", "somebody", "elsewhere", 7, "shards balance", 1_700_000_000_000)


@pytest.fixture
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    made = start_shards(2, tmp_path_factory.mktemp("shards"), choose_ports=machine.free_ports, maxmemory_bytes=64 << 20)
    yield made
    made.stop()


@contextmanager
def operator(shards: Shards, life: float) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has left its note."""
    command = [sys.executable, "-c", _WORK, str(shards.addresses[0]), str(life)]
    with started(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"at work\n"
        yield other


def note_in(shards: Shards) -> bytes | None:
    with contextlib.closing(Cluster(shards.addresses)) as cluster:
        found: bytes | None = cluster.call(keys.OPERATING, "GET", keys.OPERATING)
        return found


def leave(shards: Shards, data: bytes, life_ms: int = 60_000) -> None:
    with contextlib.closing(Cluster(shards.addresses)) as cluster:
        cluster.call(keys.OPERATING, "SET", keys.OPERATING, data, "PX", str(life_ms))


def named(shards: Shards) -> list[str]:
    return ["--addresses", ",".join(map(str, shards.addresses))]


@pytest.mark.parametrize(
    "words", [["balance"], ["drain", "SHARD"], ["remove", "SHARD"], ["handover", "SHARD"], ["replicas"]]
)
def test_a_second_operator_is_told_who_is_at_work(
    shards: Shards, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(shards.addresses[1]) if word == "SHARD" else word for word in words]
    with operator(shards, 30.0) as other:
        assert shardpulse(["shards", *words, *named(shards)]) == 75
        said = capsys.readouterr().err
        assert f"(process {other.pid}) holds the cluster lock for `shards drain somewhere` since" in said
        assert shardpulse(["shards", "status", *named(shards)]) == 0  # who only looks needs no note


def test_a_note_lives_as_long_as_its_command_and_little_longer(shards: Shards) -> None:
    with operator(shards, 1.5) as other:
        began = time.monotonic()
        while time.monotonic() < began + 3.0:  # it is renewed
            assert note_in(shards) is not None
        other.send_signal(signal.SIGKILL)
        eventually(lambda: note_in(shards) is None)
    assert shardpulse(["shards", "balance", *named(shards)]) == 0
    eventually(lambda: note_in(shards) is None, 1.0)


def test_who_finds_the_note_of_another_one_stops(shards: Shards) -> None:
    with operator(shards, 1.5) as other:
        leave(shards, lease.encode_note(NOTE))
        assert other.wait(timeout=20) == 75
        assert other.stdout is not None
        said = other.stdout.read().decode()
    assert "command aborted: somebody@elsewhere (process 7) holds the cluster lock for `shards balance`" in said
    assert note_in(shards) == lease.encode_note(NOTE)


def test_a_note_that_was_lost_with_its_shard_is_left_again(shards: Shards) -> None:
    with operator(shards, 1.5):
        mine = note_in(shards)
        leave(shards, b"x", 1)
        eventually(lambda: note_in(shards) == mine)


def test_what_is_no_note_is_told(shards: Shards, capsys: pytest.CaptureFixture[str]) -> None:
    leave(shards, b"\x1b[2J something")
    assert shardpulse(["shards", "balance", *named(shards)]) == 75
    assert "shardpulse:operating contains b'\\x1b[2J something'" in capsys.readouterr().err


def test_where_no_note_can_be_left_the_cluster_can_still_be_mended(shards: Shards) -> None:
    with contextlib.closing(Cluster(shards.addresses)) as cluster:
        keeper = cluster.owner(keys.OPERATING)
    others = [one for one in shards.addresses if one != keeper]
    with contextlib.closing(Cluster([keeper])) as cluster:
        cluster.call(keys.OPERATING, "CLUSTER", "DELSLOTS", str(keys.slot_of(keys.OPERATING)))
    said: list[str] = []
    with one_operator.only([keeper, *others], None, "shards balance", said.append):
        pass
    assert "could not take the cluster lock; concurrent changes are possible" in said[0]


def test_an_interrupt_of_the_user_stays_one(shards: Shards) -> None:
    with pytest.raises(KeyboardInterrupt), one_operator.only(shards.addresses, None, "x", print):
        raise KeyboardInterrupt
    eventually(lambda: note_in(shards) is None, 1.0)


def test_two_at_once_do_not_both_begin(shards: Shards) -> None:
    first = one_operator.only(shards.addresses, None, "first", print)
    second = one_operator.only(shards.addresses, None, "second", print)
    with first, pytest.raises(TemporaryError, match="`first`"), second:
        pytest.fail("both began")


@given(st.binary(max_size=80) | st.just(lease.encode_note(NOTE)[:-2]) | st.just(b'{"token": 1}') | st.just(b"[]"))
def test_whatever_lies_there_is_a_note_or_refused(data: bytes) -> None:
    with contextlib.suppress(FrameError):
        assert lease.decode_note(data)
    assert lease.decode_note(lease.encode_note(NOTE)) == NOTE


def test_an_address_is_enough(shards: Shards) -> None:
    with one_operator.only([Address("127.0.0.1", 1), shards.addresses[0]], None, "x", print):
        assert note_in(shards) is not None
