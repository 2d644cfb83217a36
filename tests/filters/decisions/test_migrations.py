"""Migrations that schedulers report: what follows from the log, and the log on real shards."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.config.decisions import Policy
from acquisition.errors import DataError, UnavailableError
from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys
from filters.decisions.migrations import FAILED, FINISHED, STARTED, Migration, Migrations, Report, append, replay
from filters.judging import migration_store as store

POLICY = Policy()
START = Report("vm", "a", "b", STARTED)
FINISH = Report("vm", "a", "b", FINISHED)
FAIL = Report("vm", "a", "b", FAILED, "no route to host")


def told(*reports: tuple[float, Report]) -> tuple[Migrations, list[str]]:
    state, problems = Migrations(), []
    for at, report in reports:
        state, problem = append(state, report, at)
        problems.append(problem)
    return state, problems


def test_a_migration_starts_and_finishes() -> None:
    state, problems = told((10.0, START))
    assert problems == [""]
    assert list(state.in_progress(20.0)) == [Migration("vm", "a", "b", 10.0, None, STARTED)]
    assert state.rested("vm", 20.0) is None
    state, _ = append(state, FINISH, 25.0)
    assert list(state.in_progress(26.0)) == []
    assert state.rested("vm", 30.0) == 5.0
    assert state.touched() == {"a": 25.0, "b": 25.0}


def test_a_failed_one_cools_the_vm_and_settles_no_host() -> None:
    state, _ = told((10.0, START), (25.0, FAIL))
    assert state.rested("vm", 30.0) == 5.0
    assert state.touched() == {}
    found = state.of("vm")
    assert found is not None
    assert found.reason == "no route to host"


def test_an_end_without_a_start_counts() -> None:
    state, problems = told((25.0, FINISH))
    assert problems == [""]
    assert state.of("vm") == Migration("vm", "a", "b", None, 25.0, FINISHED)


def test_one_without_an_end_is_given_up_on() -> None:
    state, _ = told((10.0, START))
    assert list(state.in_progress(610.0))
    assert list(state.in_progress(611.0)) == []
    assert state.rested("vm", 611.0) == 1.0
    assert append(state, Report("vm", "a", "c", STARTED), 620.0)[1] == ""  # and may be tried again


def test_repetitions_change_nothing_and_are_no_problem() -> None:
    once, _ = told((10.0, START))
    twice, problem = append(once, START, 11.0)
    assert (twice is once, problem) == (True, "")
    ended, _ = append(once, FINISH, 12.0)
    again, problem = append(ended, FINISH, 13.0)
    assert (again is ended, problem) == (True, "")


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Report("vm", "a", "c", STARTED), "vm is already migrating from a to b"),
        (Report("vm", "a", "c", FINISHED), "vm is migrating from a to b"),
        (Report("vm", "a", "b", "begun"), "invalid phase 'begun': expected one of started, finished, failed"),
        (Report("", "a", "b", STARTED), "vm is empty"),
        (Report("vm", "", "b", STARTED), "source is empty"),
        (Report("vm", "a", "", STARTED), "destination is empty"),
        (Report("vm", "a", "a", STARTED), "source and destination are the same host a"),
    ],
)
def test_contradictions_change_nothing_and_are_told(report: Report, words: str) -> None:
    before, _ = told((10.0, START))
    after, problem = append(before, report, 11.0)
    assert after is before
    assert problem == words


def test_an_earlier_end_outlives_later_reports_of_the_vm() -> None:
    for later in (Report("vm", "b", "c", STARTED), Report("vm", "a", "b", FAILED)):
        state, problems = told((10.0, START), (25.0, FINISH), (26.0, later))
        assert problems == [""] * 3
        assert state.touched() == {"a": 25.0, "b": 25.0}
        entries = [(str(at), report, at) for at, report in ((10.0, START), (25.0, FINISH), (26.0, later))]
        assert replay(entries, 600.0)[0] == state


REPORTS = st.builds(
    Report, st.sampled_from(["v", "w", ""]), st.sampled_from(["a", "b"]), st.sampled_from(["a", "b", "c"]),
    st.sampled_from([STARTED, FINISHED, FAILED, "x"]),
)  # fmt: skip


@given(st.lists(st.tuples(st.floats(0, 500), REPORTS), max_size=30))
def test_any_reports_leave_a_state_that_can_be(drawn: list[tuple[float, Report]]) -> None:
    state, at = Migrations(), 0.0
    for wait, report in drawn:
        at += wait
        before = state
        state, problem = append(state, report, at)
        assert not problem or state is before
        for vm, each in state.newest.items():
            assert vm == each.vm != ""
            assert each.source != each.destination
            assert (each.ended is None) == (each.outcome == STARTED)
            assert each.started is not None or each.ended is not None
            assert (state.rested(vm, at) is None) == (each in state.in_progress(at))


# --- the log in the shards ---------------------------------------------------------------------------------------


def test_the_log_is_shared_and_keeps_the_time_of_its_shard(cluster: Cluster) -> None:
    assert store.read(cluster, POLICY).migrations.newest == {}
    log = store.report(cluster, START, POLICY)
    assert store.report(cluster, START, POLICY).migrations == log.migrations  # a repetition
    assert cluster.call(keys.MIGRATIONS, "XLEN", keys.MIGRATIONS) == 1
    other = cluster.another()
    read = store.read(other, POLICY)
    other.close()
    assert read.migrations == log.migrations
    found = next(read.migrations.in_progress(read.now))
    assert 0.0 <= read.now - (found.started or 0.0) < 5.0
    store.report(cluster, FINISH, POLICY)
    log = store.read(cluster, POLICY)
    assert list(log.migrations.in_progress(log.now)) == []


def test_contradictions_are_refused_and_nothing_is_written(cluster: Cluster) -> None:
    store.report(cluster, START, POLICY)
    with pytest.raises(DataError, match="vm is already migrating from a to b"):
        store.report(cluster, Report("vm", "a", "c", STARTED), POLICY)
    assert cluster.call(keys.MIGRATIONS, "XLEN", keys.MIGRATIONS) == 1


def test_of_two_that_start_at_once_one_is_refused(shards: Shards, cluster: Cluster) -> None:
    answers: list[str] = []
    ready = threading.Barrier(4)

    def start(destination: str) -> None:
        own = shards.connect()
        ready.wait(10)
        try:
            store.report(own, Report("vm", "a", destination, STARTED), POLICY)
            answers.append(destination)
        except DataError as error:
            answers.append(str(error))
        finally:
            own.close()

    threads = [threading.Thread(target=start, args=(name,)) for name in ("b", "c", "d", "e")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    log = store.read(cluster, POLICY)
    (winner,) = log.migrations.in_progress(log.now)
    assert sorted(answer for answer in answers if len(answer) == 1) == [winner.destination]
    assert sum(answer.startswith("vm is already migrating from a to ") for answer in answers) == 3


def test_entries_that_are_no_reports_change_nothing(cluster: Cluster) -> None:
    key = keys.MIGRATIONS
    cluster.call(key, "XADD", key, "*", "vm", "x")
    cluster.call(key, "XADD", key, "*", b"\xff", b"\xfe")
    store.report(cluster, START, POLICY)
    log = store.read(cluster, POLICY)
    assert set(log.migrations.newest) == {"vm"}
    assert [problem.partition(": ")[2] for problem in log.problems] == ["not a migration report"] * 2


def test_a_shard_that_is_gone_is_an_error(start_cluster) -> None:  # type: ignore[no-untyped-def]
    running = start_cluster(1)
    cluster = running.connect()
    store.read(cluster, POLICY)
    running.stop()
    with pytest.raises(UnavailableError):
        store.read(cluster, POLICY)
    cluster.close()


def test_ends_that_were_seen_are_told_to_later_readers(cluster: Cluster) -> None:
    now = store.read(cluster, POLICY).now
    store.note(cluster, {"a": now - 3.0, "b": now - 5.0, "old": now - 1000.0, "ahead": now + 1000.0})
    store.report(cluster, START, POLICY)
    store.report(cluster, FINISH, POLICY)
    cluster.call(keys.SETTLED, "HSET", keys.SETTLED, "c", b"\xff", "d", "9" * 30, b"\xfe", int(1000 * now))
    ends = store.read(cluster, POLICY).migrations.ends
    assert {host: round(now - at) for host, at in ends.items() if host in "abcd"} == {"a": 3, "b": 5}
    assert "old" not in ends
    assert "ahead" not in ends
    assert cluster.call(keys.SETTLED, "PTTL", keys.SETTLED) > 0
