"""What services see happen is in the shards once, however many services there are and whenever they start."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from acquisition.config.decisions import Decisions
from acquisition.errors import ShardpulseError
from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.link.happenings import Entry, Happening, Turn
from acquisition.link.layouts import read_layout
from acquisition.status import recent_events
from acquisition.status.finding import STALE, Finding, of_events
from acquisition.wire import keys
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import method_of
from filters.decisions.migrations import Log, Migrations
from filters.decisions.picture import Conflict, Host
from filters.decisions.verdict import NOT_HOT, SATURATED, SUSPECT, Heat, Verdict
from filters.service.ticks.event_recorder import EventRecorder
from tests.support.pictures import host, picture, vm

METHOD = method_of(Decisions())
HOT = host("000000000000000a", [vm("big", 4.0), vm("small", 1.0)], cpu=0.99)
COOL = host("000000000000000a", [vm("big", 1.0), vm("small", 1.0)], cpu=0.2)
CALM = host("000000000000000b", [vm("other", 0.5)], cpu=0.1)


def decided(hosts: Sequence[Host], before: Decided | None = None, blind: str = "") -> Decided:
    """What the rule says of hosts."""
    seen = picture(*hosts)._replace(blind=blind)
    hot, moves = (
        (frozenset[str](), ()) if before is None else (before.heat.hot, before.plan.moves if before.plan else ())
    )
    return decide(seen, METHOD, Log(Migrations(), 1000.0), hot, moves)


def told(cluster: Cluster) -> list[Entry]:
    """All that is in the streams, in the order of time."""
    found = []
    for tag in keys.tags(keys.DEFAULT_PARTITIONS):
        name = keys.events(tag)
        found += [happenings.decode(*entry) for entry in cluster.call(name, "XRANGE", name, "-", "+")]
    assert None not in found
    return sorted([one for one in found if one is not None], key=lambda one: one.time)


def test_two_services_tell_a_hot_host_and_its_move_once(cluster: Cluster) -> None:
    first, second = EventRecorder(), EventRecorder()
    hot = decided([HOT, CALM])
    assert hot.heat.hot == {HOT.id}
    assert hot.plan is not None
    assert hot.plan.moves
    for _ in range(2):
        for recorder in (first, second):
            recorder.record(cluster, hot, 1000.0)
    assert first.record(cluster, hot, 1001.0) == 0
    entries = {one.kind: one for one in told(cluster)}
    assert sorted(one.kind for one in told(cluster)) == ["hot", "move_proposed"]
    assert entries["hot"].host == int(HOT.id, 16)
    assert entries["hot"].details["rule"] == METHOD.rule.name
    assert entries["hot"].details["figures"]
    assert entries["move_proposed"].details["destination"] == CALM.id
    cool = decided([COOL, CALM], hot)
    third = EventRecorder()  # of a service that starts now
    for recorder in (third, first, second, third):
        recorder.record(cluster, cool, 1010.0)
    (one,) = [one for one in told(cluster) if one.kind == "cool"]
    assert one.details["since"] == 1000.0
    first.record(cluster, hot, 1020.0)
    assert sorted(one.kind for one in told(cluster)) == ["cool", "hot", "hot", "move_proposed", "move_proposed"]


def test_suspect_and_saturated_hosts_have_events(cluster: Cluster) -> None:
    recorder, calm = EventRecorder(), decided([COOL])
    for now, outcome in enumerate((SUSPECT, SUSPECT, SATURATED, NOT_HOT)):
        verdict = Verdict(outcome, f"because it is {outcome}")
        recorder.record(cluster, calm._replace(heat=Heat({COOL.id: verdict}, frozenset())), float(now))
    entries = told(cluster)
    assert [one.kind for one in entries if "over" not in one.kind] == ["suspect", "saturated"]
    reasons = {one.kind: one.details["reason"] for one in entries}
    assert reasons["suspect_over"] == reasons["saturated"] == "because it is saturated"
    assert reasons["saturated_over"] == "because it is not_hot"


def test_a_host_that_nobody_sees_stays_as_it_was_told(cluster: Cluster) -> None:
    recorder, hot = EventRecorder(), decided([HOT, CALM])
    recorder.record(cluster, hot, 1000.0)
    recorder.record(cluster, decided([CALM], hot), 1001.0)
    assert [one.kind for one in told(cluster) if one.kind in {"hot", "cool"}] == ["hot"]


def test_blindness_is_told_while_it_lasts_or_once_it_is_over(cluster: Cluster) -> None:
    recorders = [EventRecorder(), EventRecorder()]
    for recorder in recorders:
        recorder.record(cluster, decided([CALM]), 1000.0)
    for recorder in recorders:
        recorder.record(cluster, decided([CALM], blind="no filter worker"), 1001.0)
    assert [(one.kind, one.details) for one in told(cluster)] == [
        ("blind", {"since": 1001.0, "reason": "no filter worker"})
    ]
    for recorder in recorders:
        recorder.record(cluster, decided([CALM]), 1005.0)
    for recorder in recorders:  # now nothing can be told before it is over
        recorder.see_nothing(1010.0, "no shard answers")
        recorder.see_nothing(1011.0, "no shard answers")
    for recorder in recorders:
        recorder.record(cluster, decided([CALM]), 1020.0)
    assert [(one.kind, one.details.get("since")) for one in told(cluster)] == [
        ("blind", 1001.0), ("sight", None), ("blind", 1010.0), ("sight", None)
    ]  # fmt: skip


def test_a_host_that_claims_vms_of_others_is_told_and_found(cluster: Cluster) -> None:
    recorders, calm = (EventRecorder(), EventRecorder()), decided([CALM, COOL])
    both = [Conflict(vm, COOL.id, CALM.id) for vm in ("uuid-big", "uuid-small")]
    claimed = calm._replace(picture=calm.picture._replace(conflicts=tuple(both)))

    def found() -> list[Finding]:
        errors: list[ShardpulseError] = []
        rows = of_events(recent_events.read(cluster, read_layout(cluster), time.time(), errors), [])
        assert not errors
        return rows

    for now in (1000.0, 1001.0, 1061.0):  # of two minutes
        for recorder in recorders:
            recorder.record(cluster, claimed, now)
    one, again = told(cluster)
    reason = f"reports 2 VMs that run elsewhere, such as uuid-big of {COOL.name}, for more than a minute"
    for each in (one, again):
        assert (each.kind, each.host, each.details) == (
            "conflict", int(CALM.id, 16), {"vms": 2, "vm": "uuid-big", "host": COOL.id, "reason": reason}
        )  # fmt: skip
    cluster.gather(happenings.appended(keys.tags(64)[9], "limit", {"reason": "too large"}, COOL.id))
    large, finding = found()
    assert (large.about, large.text) == (f"host {COOL.id}", "some of its frames are rejected: too large")
    assert (finding.kind, finding.about) == (STALE, f"host {CALM.id}")
    assert finding.text.startswith(f"{reason}: it is excluded from decisions")
    for recorder in recorders:
        recorder.record(cluster, calm, 1100.0)  # it may be away for a moment
        recorder.record(cluster, calm, 1220.0)
    assert [one.kind for one in told(cluster)] == ["conflict", "conflict", "limit", "conflict_over"]
    assert found() == [large]


def test_streams_are_capped_and_garbage_is_none_of_ours(cluster: Cluster) -> None:
    tag = keys.tags(keys.DEFAULT_PARTITIONS)[3]
    name = keys.events(tag)
    cluster.gather(
        happenings.commands(tag, [Happening("n", str(n), Turn.CHANGE, 1.0, "noise", "", {"n": n}) for n in range(3000)])
    )
    assert 1000 <= cluster.call(name, "XLEN", name) < 1200
    assert cluster.call(name, "PTTL", name) > 0
    good = [b"kind", b"x", b"host", b"", b"before", b"", b"details", b"{}"]
    assert happenings.decode(b"1-1", good) is not None
    for place, bad in ((1, b"\xff"), (3, b"g"), (3, b"1" * 17), (7, b"[]"), (7, b"{"), (6, b"other")):
        assert happenings.decode(b"1-1", [*good[:place], bad, *good[place + 1 :]]) is None
    for place, bad in ((5, b"a\0"), (7, b'{"a":"\\u0000"}'), (7, b'{"a":"\\ud800"}'), (7, b'{"\\udfff":1}')):
        assert happenings.decode(b"1-1", [*good[:place], bad, *good[place + 1 :]]) is None  # what jsonb refuses
    for fields in (None, [], good[:1], good[:2], 7):
        assert happenings.decode(b"1-1", fields) is None


@pytest.mark.parametrize("field", ["hot:no host", "hot:", "hot:\udcff", "move:\udcff", "hot:-1", "hot:" + "f" * 17])
def test_a_foreign_field_blinds_nobody(cluster: Cluster, field: str) -> None:
    name = keys.told(keys.tags(keys.DEFAULT_PARTITIONS)[0])
    for state in ("", "1" * 5000, "\u00b2"):
        cluster.call(name, "HSET", name, field.encode("utf-8", "surrogateescape"), state)
        cluster.call(name, "HSET", name, "hot:" + CALM.id, state)
        recorder = EventRecorder()
        recorder.record(cluster, decided([HOT, CALM]), 1000.0)
        assert recorder.record(cluster, decided([HOT, CALM]), 1001.0) == 0
    assert [one.host for one in told(cluster) if one.kind == "hot"] == [int(HOT.id, 16)]
