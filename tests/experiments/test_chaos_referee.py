"""The referee finds what differs: the real pipeline fed by hand, then logs that say something else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.reconcile import books
from acquisition.snapshot.reconcile.balance import Account
from acquisition.snapshot.reconcile.books import Books
from acquisition.snapshot.values.block import Block
from experiments.chaos import host_log, referee
from experiments.chaos.host_log import Note
from experiments.chaos.load import Load
from experiments.chaos.logged_host import LoggedHost
from experiments.chaos.observer import Seen
from experiments.emulation.workload import host_number
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.waiting import PATIENCE

LOAD = Load(hosts=2, entities=4, metrics=5, interval=1.0, seed=5, invalid=0.05)
TAU = 5.0


class Played(NamedTuple):
    logs: dict[int, list[Note]]
    books: Books
    blocks: tuple[Block, ...]


@pytest.fixture
def played(cluster: Cluster, shards: Shards, tmp_path: Path) -> Iterator[Played]:
    """Two hosts made 40 frames each; one of them was restarted in the middle."""
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(tau_seconds=TAU))

    def start(index: int) -> LoggedHost:
        ring, log = tmp_path / f"{index}.ring", tmp_path / f"{index}.log"
        return LoggedHost(LOAD, index, shards.addresses, ring, log, 1 << 20, 600.0)

    hosts = [start(0), start(1)]
    began, wall = time.monotonic() - 40.0, time.time() - 40.0
    for number in range(40):
        if number == 20:
            hosts[1].close()
            hosts[1] = start(1)
        for host in hosts:
            host.sample(0, wall + number, began + number * 1.001)
    deadline = time.monotonic() + PATIENCE
    found = Played({}, books.read(cluster, read_layout(cluster)), ())
    made = {host.index: host_log.read(tmp_path / f"{host.index}.log") for host in hosts}
    while True:
        for host in hosts:
            host.writer.service(time.monotonic())
        worker.turn(0.01)
        read = books.read(cluster, read_layout(cluster))
        if not referee.judge_books(LOAD, made, read):
            found = Played(made, read, SnapshotReader(cluster).latest().blocks)
            break
        assert time.monotonic() < deadline, referee.judge_books(LOAD, made, read)
    yield found
    worker.close()
    for host in hosts:
        host.close()


def test_what_is_equal_is_found_equal_and_every_difference_is_found(played: Played) -> None:
    logs, read, blocks = played
    found = referee.judge_values(LOAD, logs, blocks, TAU)
    assert found.problems == ()
    assert found.mismatches == 0
    assert found.entities >= 8
    assert 0.0 < found.worst < 1.0

    assert referee.judge_values(LOAD, logs, blocks, TAU * 1.001).mismatches  # another smoothing
    one_host = referee.judge_values(LOAD, logs, blocks[:1], TAU)
    assert one_host.mismatches in (logs[0][-1].samples, logs[1][-1].samples)  # all of the other one
    for place in (5, 30, 39):
        late = list(logs[0])
        late[place] = late[place]._replace(monotonic=late[place].monotonic + 0.4)
        assert referee.judge_values(LOAD, {0: late}, blocks, TAU).mismatches, place  # another time
    missed = [note for note in logs[0] if note.number != 35]
    assert referee.judge_values(LOAD, {0: missed}, blocks, TAU).mismatches  # a frame was applied that was never made
    more = [*logs[0], logs[0][-1]._replace(number=40, sequence=logs[0][-1].sequence + 1)]
    assert referee.judge_values(LOAD, {0: more}, blocks, TAU).mismatches  # a frame that was made is not applied

    assert referee.judge_books(LOAD, {0: missed, 1: logs[1]}, read)
    assert referee.judge_books(LOAD, {0: more, 1: logs[1]}, read)
    other_epoch = [note._replace(epoch=note.epoch + 1) for note in logs[0]]
    assert referee.judge_books(LOAD, {0: other_epoch, 1: logs[1]}, read)


def account(load: Load, host: int, applied: int, shed: int, lost: int) -> Account:
    """Of a host that has made a thousand samples."""
    return Account(
        host=host_number(host), host_name=f"host{host}", resource_set=load.set_id, report="reported", report_age=0.0,
        epoch=1, made=1000, before=0, applied=applied, invalid=0, lost=lost, pending=0, missing=0, unsent=0, dropped=0,
        shed=shed, gaps=0, frames=1, lost_frames=0, refused_frames=0, duplicate_frames=0, resent_frames=0, go_backs=0,
        sheds=False, contested=False, misnamed=False, wall=0.0, interval=1.0, faults=(),
    )  # fmt: skip


def test_what_is_shed_is_what_is_lost_and_the_talkative_shed_it() -> None:
    def judged(
        applied: int = 400, shed: int = 600, lost: int = 600, age: float = 5.0, shedding: int = 1, other: int = 0,
        talkative: bool = True,
    ) -> str:  # fmt: skip
        load = Load(hosts=4, entities=1, metrics=5, interval=1.0, seed=5, invalid=0.0, talkative=talkative)
        notes = {host: [Note(0, 1000, 1, 1, 0.0, 0.0)] for host in range(4)}
        accounts = [account(load, host, 1000 - other, other, other) for host in range(3)]
        found = Books([*accounts, account(load, 3, applied, shed, lost)], {}, 0, [], {}, {})
        seen = [Seen(0.0, 0, 0, 0, [], age, shedding)]
        return "; ".join(referee.judge_books(load, notes, found) + referee.judge_overload(load, found, seen)[1])

    assert judged() == ""
    assert judged(lost=601).startswith("host 3: 601 samples lost, 600 shed; ")
    assert "399 applied" in judged(applied=399)
    assert "nothing was shed" in judged(1000, 0, 0)
    assert "no reader learned" in judged(shedding=0)
    assert "10.1 s old: more than 10" in judged(age=10.1)
    assert judged(other=61) == "hosts shed 0.0610 of what they made, talkative ones 0.6000"
    assert "host 3: 600 samples lost;" in judged(talkative=False)
