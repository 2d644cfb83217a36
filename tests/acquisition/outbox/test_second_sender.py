"""Two machines of one name: everybody says so, nothing is sent again for ever, and no figure of theirs is VALID."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from acquisition.link.layouts import read_layout
from acquisition.model import codes
from acquisition.outbox.frames.store import Outbox
from acquisition.shards.servers.launch import Shards
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot.reconcile import books
from acquisition.status import health
from acquisition.wire import keys
from acquisition.wire.position import CONTESTED
from acquisition.wire.records import smoothed
from tests.support.fixture_types import MakePipeline
from tests.support.waiting import PATIENCE
from tests.support.writer_bench import HOST, SET, Pipeline


class Twins:
    """The elder has a filter; both offer a frame in turn."""

    def __init__(self, elder: Pipeline, younger: Pipeline) -> None:
        self.elder, self.younger = elder, younger

    def offer(self, *of: Pipeline | int) -> None:
        count = of[-1] if isinstance(of[-1], int) else 1
        for _ in range(count):
            for each in of:
                if isinstance(each, Pipeline):
                    each.offer()
            self.turn(*(each for each in of if isinstance(each, Pipeline)))

    def turn(self, *which: Pipeline) -> None:
        for _ in range(4):
            for each in which:
                each.turn()

    def until(self, done: object, *which: Pipeline) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():  # type: ignore[operator]
            assert time.monotonic() < deadline, self.elder.position()
            self.offer(*which)

    @property
    def codes(self) -> list[int]:
        """Of the newest record."""
        found = self.elder.position()
        assert found is not None
        key = keys.smoothed(self.elder.tag, HOST, SET, found.tick % keys.DEFAULT_KEEP_TICKS)
        codes: list[int] = smoothed.decode(self.elder.cluster.call(key, "GET", key)).codes().ravel().tolist()
        return codes


@pytest.fixture
def twins(make_pipeline: MakePipeline) -> Twins:
    return Twins(begun(make_pipeline(position_interval=0.05)), make_pipeline(position_interval=0.05))


def begun(elder: Pipeline) -> Pipeline:
    """With a filter that has applied its first frames, as it knows."""
    elder.start_filter()
    elder.offer(3)
    elder.turn_until(lambda: elder.is_applied() and elder.outbox.windows[SET].applied == elder.outbox.windows[SET].last)
    return elder


def go_backs(pipeline: Pipeline) -> int:
    """How often it has sent again without having lost its connection, which any busy machine may bring about."""
    account = pipeline.writer.account()
    return int(account["sets"][SET]["go_backs"]) - int(account["connections"])


def test_both_know_and_nothing_is_sent_again_for_ever(twins: Twins, shards: Shards) -> None:
    elder, younger = twins.elder, twins.younger
    twins.until(lambda: elder.writer.contested and younger.writer.contested, elder, younger)
    before = go_backs(elder), go_backs(younger)
    twins.offer(elder, younger, 100)
    assert (go_backs(elder) <= before[0], go_backs(younger) <= before[1]) == (True, True)

    def marked() -> bool:
        found = elder.position()
        return found is not None and bool(found.flags & CONTESTED) and set(twins.codes) == {codes.CONTESTED}

    twins.until(marked, elder, younger)
    cluster = shards.connect()
    (row,) = books.read(cluster, read_layout(cluster)).accounts
    assert row.contested
    with Members(shards.addresses, None, 2.0) as members:
        findings = health.read(cluster, members, {}).findings
    assert any("two senders use this name" in finding.text for finding in findings)
    cluster.close()


def test_who_stays_alone_is_believed_again(twins: Twins) -> None:
    elder, younger = twins.elder, twins.younger
    twins.until(lambda: elder.writer.contested and younger.writer.contested, elder, younger)
    twins.until(lambda: not elder.writer.contested, elder)
    elder.turn_until(elder.is_applied)
    elder.offer()
    elder.turn_until(elder.is_applied)
    assert set(twins.codes) == {codes.VALID}


def test_the_younger_takes_over_when_the_elder_is_gone(twins: Twins) -> None:
    elder, younger = twins.elder, twins.younger
    twins.until(lambda: elder.writer.contested and younger.writer.contested, elder, younger)
    younger.worker, elder.worker = elder.worker, None  # the elder's machine is off
    twins.until(lambda: not younger.writer.contested, younger)
    younger.turn_until(younger.is_applied)
    younger.offer()
    younger.turn_until(younger.is_applied)
    assert set(twins.codes) == {codes.VALID}


def assert_the_contest_is_known(twins: Twins) -> None:
    """Of two machines, one has the epoch of both and the other one of its own; no figure is VALID."""
    elder, younger = twins.elder, twins.younger

    def told() -> bool:
        found, epochs = elder.position(), {each.outbox.windows[SET].epoch for each in (elder, younger)}
        return found is not None and bool(found.flags & CONTESTED) and found.epoch in epochs and len(epochs) == 2

    twins.until(lambda: told() and elder.writer.contested and younger.writer.contested, elder, younger)
    twins.until(lambda: set(twins.codes) == {codes.CONTESTED}, elder, younger)
    before = go_backs(elder), go_backs(younger)
    twins.offer(elder, younger, 50)
    assert told()
    assert (go_backs(elder), go_backs(younger)) == before
    (row,) = books.read(elder.cluster, elder.layout).accounts
    assert row.contested


@pytest.fixture
def clones(make_pipeline: MakePipeline, tmp_path: Path) -> Twins:
    """A machine that was cloned while it ran: both have its ring and epoch, and go on with the same numbers."""
    elder = begun(make_pipeline(outbox=Outbox(str(tmp_path / "elder")), position_interval=0.05))
    shutil.copy(tmp_path / "elder", tmp_path / "younger")
    younger = make_pipeline(outbox=Outbox(str(tmp_path / "younger")), position_interval=0.05)
    younger.tick = elder.tick
    younger.turn_until(lambda: younger.outbox.windows[SET].synchronized)
    return Twins(elder, younger)


def test_clones_in_step_are_told_apart(clones: Twins) -> None:
    """Neither is ever ahead of what was applied: the younger's frames come as the second of each number."""
    elder, younger = clones.elder, clones.younger
    (epoch,) = {each.outbox.windows[SET].epoch for each in (elder, younger)}
    deadline = time.monotonic() + PATIENCE
    while younger.outbox.windows[SET].epoch == epoch:
        assert time.monotonic() < deadline, (elder.position(), younger.writer.account())
        younger.offer()
        while elder.outbox.windows[SET].last < younger.outbox.windows[SET].last:  # which may send a table
            elder.offer()
        elder.turn_until(elder.is_applied)
        clones.turn(younger)
    assert set(clones.codes) == {codes.CONTESTED}  # the filter has seen it before
    assert_the_contest_is_known(clones)
    assert elder.outbox.windows[SET].epoch == epoch


@pytest.mark.parametrize("ahead", [1, 5])
def test_a_clone_that_is_ahead_is_told_apart(clones: Twins, ahead: int) -> None:
    clones.offer(clones.younger, ahead)
    assert_the_contest_is_known(clones)


def test_a_clone_that_stays_alone_is_believed_again(clones: Twins) -> None:
    assert_the_contest_is_known(clones)
    elder, younger = clones.elder, clones.younger
    younger.worker, elder.worker = elder.worker, None  # the elder's machine is off
    clones.until(lambda: not younger.writer.contested, younger)
    younger.turn_until(younger.is_applied)
    clones.until(lambda: set(clones.codes) == {codes.VALID}, younger)
