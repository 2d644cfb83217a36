"""Frames of lean hosts that C makes are those that Python makes, and what is not plain is left to Python."""

import math
import shutil
import socket
from collections.abc import Iterator

import pytest

from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.wire import frame as wire
from acquisition.wire.frame import Frame
from experiments.emulation import lanes as native
from experiments.emulation.emulated_host import Common
from experiments.emulation.lanes import Lanes, Outcome
from experiments.emulation.lean_host import LeanHost
from experiments.emulation.lean_turns import lanes_of
from experiments.emulation.workload import Workload

HEAD = b"*5\r\n$4\r\nXADD\r\n$1\r\nk\r\n$1\r\n*\r\n$1\r\nf\r\n$"
NOWHERE = [Address("127.0.0.1", 1)]
WORKLOAD = Workload(3, 11, 7, invalid=0.02, churn_per_hour=0.0)

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler: apt install gcc libc6-dev")


class Bench:
    """Three hosts whose lanes send into ``theirs`` what is read from ``ours``."""

    def __init__(self, workload: Workload = WORKLOAD) -> None:
        self.common = Common(workload)
        lanes = lanes_of(self.common, workload.hosts)
        assert lanes is not None
        self.lanes: Lanes = lanes
        self.ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.hosts = [
            LeanHost(self.common, index, NOWHERE, 1.0, False, Credentials(), lanes, index)
            for index in range(workload.hosts)
        ]
        for lane in lanes.lanes:
            lane.head, lane.head_size, lane.descriptor = native.address(HEAD), len(HEAD), self.theirs.fileno()
            lane.due, lane.plain = math.inf, lane.plain | native.PLAIN

    def expected(self, host: int, number: int, tick: int, wall: float, monotonic: float) -> bytes:
        """The command of frame ``number`` (0, 1, 2 …) of a host, by the definition."""
        common, members = self.common, self.hosts[host].membership.members
        strip, cells = common.strip, len(members.serials) * common.workload.metrics
        values, codes = strip.cut(strip.row(strip.start(host), number), len(members.serials))
        data = wire.encode(
            Frame(
                wire.KIND_SAMPLES, common.schema, self.hosts[host].number, common.set_id, len(members.serials),
                common.workload.metrics, common.workload.interval, self.hosts[host].window.epoch, number + 1,
                number + 1, number * cells, tick, wall, monotonic, members.ids, values, codes,
            )
        )  # fmt: skip
        return HEAD + b"%d\r\n%s\r\n" % (len(data), data)

    def received(self) -> bytes:
        """All that has come."""
        self.ours.setblocking(False)
        parts = []
        while True:
            try:
                parts.append(self.ours.recv(1 << 20))
            except BlockingIOError:
                return b"".join(parts)

    def close(self) -> None:
        """Close everything."""
        self.ours.close()
        self.theirs.close()
        for host in self.hosts:
            host.writer.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_frames_are_those_of_the_definition(bench: Bench) -> None:
    with_codes = 0
    for number in range(60):
        for host in range(3):
            made = bench.lanes.one(host, 1000 + number, 17.25 + number, 3.5 + number)
            assert made.outcome is Outcome.DONE
            assert (made.frames, made.samples) == (1, 77)
            expected = bench.expected(host, number, 1000 + number, 17.25 + number, 3.5 + number)
            assert bench.received() == expected
            with_codes += bool(wire.decode(expected[len(HEAD) + 5 : -2]).codes)
    assert 0 < with_codes < 180


@pytest.mark.parametrize(
    "change",
    [{"plain": 0}, {"due": 0.0}, {"rows": 12}],
    ids=["not plain", "positions are due", "more rows than the strip ends with"],
)
def test_what_is_not_plain_is_left_to_python(bench: Bench, change: dict[str, float]) -> None:
    for name, value in change.items():
        setattr(bench.lanes.lanes[1], name, value)
    assert bench.lanes.one(1, 1, 1.0, 1.0).outcome is Outcome.PYTHON
    assert not bench.received()
    assert bench.lanes.lanes[1].last == 0


def test_a_change_of_rows_is_left_to_python() -> None:
    bench = Bench(WORKLOAD._replace(churn_per_hour=1e6))
    frames = bench.common.workload.churn_frames
    outcomes = []
    for number in range(3 * frames):
        outcomes.append(bench.lanes.one(0, number, 1.0, 1.0).outcome)
        bench.lanes.lanes[0].frames = number + 1
    changes = [number for number, outcome in enumerate(outcomes) if outcome is Outcome.PYTHON]
    assert changes == [n for n in range(1, 3 * frames) if (n + bench.hosts[0].membership.phase) % frames == 0]
    bench.close()


def test_what_a_full_socket_does_not_take_is_handed_over(bench: Bench) -> None:
    bench.theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sent = b""
    for number in range(1000):
        made = bench.lanes.one(0, number, 1.0, 1.0)
        sent += bench.expected(0, number, number, 1.0, 1.0)
        if made.outcome is Outcome.REST:
            break
    assert made.outcome is Outcome.REST
    assert made.rest
    assert bench.received() + made.rest == sent
    assert bench.lanes.one(0, 0, 1.0, 1.0).outcome is Outcome.PYTHON  # until Python has sent the rest


def test_without_a_compiler_python_serves_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert lanes_of(Common(WORKLOAD), 3) is None
    assert "apt install gcc" in capsys.readouterr().err
