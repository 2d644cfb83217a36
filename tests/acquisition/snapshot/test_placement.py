"""Where a VM is: the rule by itself, what it reads from blocks, and the cache that finds who is reported twice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import TemporaryError
from acquisition.model import codes
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import INFINITY, Metric, resource_set_id, schema_hash
from acquisition.snapshot import Snapshot
from acquisition.snapshot.reading import records
from acquisition.snapshot.reading.records import Due
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Member, Place
from acquisition.snapshot.values.names import Names
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE, STATES
from acquisition.snapshot.visibility import causes
from acquisition.snapshot.visibility.causes import Visibility
from acquisition.snapshot.vms import placement
from acquisition.snapshot.vms.evidence import EvidenceIndex, Meter, VmEvidence, evidence_by_vm, evidence_of
from acquisition.snapshot.vms.placement import (
    ARRIVING,
    CONFLICT,
    INCOMING,
    MIGRATING,
    RUNNING,
    UNSEEN,
    Placements,
    settle,
)
from acquisition.wire.position import Position
from acquisition.wire.records import smoothed
from acquisition.wire.table import Entity, Table
from tests.support.scene import record

NOTHING = Meter()
NEVER = Meter(0.0, 0.0)  # stands still, and has done so ever since
WORKS = Meter(0.7, 0.6)
STOOD_STILL = Meter(0.0, 0.6)  # it has worked, but not in this tick


def process(host: str, born: float | None, guest: Meter = NOTHING, **changes: object) -> VmEvidence:
    fields = {
        "host_id": host_id(host), "host": host, "entity_id": entity_id("vm", "u", f"{host}{born}"),
        "host_state": CURRENT, "age_seconds": 1.0, "born": born, "certain": True,
        "unheard": changes.get("host_state") == DOWN, "guest": guest,
        "cpu": NOTHING, "kvm": True, "accounted": True, "incoming": False,
    }  # fmt: skip
    return VmEvidence(**(fields | changes))  # type: ignore[arg-type]


def where(*evidence: VmEvidence) -> tuple[str, str, tuple[str, ...]]:
    placed = settle("u", evidence)
    return placed.host, placed.state, placed.other_hosts


def incoming(host: str, born: float | None, guest: Meter = NEVER, **changes: object) -> VmEvidence:
    return process(host, born, guest, incoming=True, **changes)


# ---------------------------------------------------------------- one id and several names


def called(name: str, host: str, born: float, run: Meter = NEVER, **changes: object) -> VmEvidence:
    """A process that a kernel books no guest time of: only its vCPU threads say whether it runs."""
    return process(host, born, name=name, run=run, kvm=False, cpu=run, **changes)


def names_of(*evidence: VmEvidence) -> list[list[str]]:
    return [[each.name for each in vm] for vm in placement.vms_of(evidence)]


def test_two_names_are_two_vms_wherever_they_run() -> None:
    for host in ("a", "b"):
        for one, other in ((WORKS, WORKS), (STOOD_STILL, WORKS), (NEVER, NEVER), (WORKS, NEVER)):
            assert names_of(called("x", "a", 0, one), called("y", host, 100, other)) == [["x"], ["y"]]
    assert names_of(called("x", "a", 0), called("x", "b", 100)) == [["x", "x"]]


def test_migration_that_renames_is_one_vm_by_start_and_vcpu_time() -> None:
    source = called("x", "a", 0, WORKS)
    target = called("y", "b", 100, NEVER)
    assert names_of(source, target._replace(incoming=True)) == [["x", "y"]]
    assert names_of(source, target._replace(run=WORKS, received_seconds=1.0)) == [["x", "y"]]  # both ran in this tick
    still = source._replace(run=STOOD_STILL, cpu=STOOD_STILL)
    assert names_of(still, target._replace(run=WORKS, received_seconds=30.0)) == [["x", "y"]]
    placed = settle("u", [still, target._replace(run=WORKS, cpu=WORKS, received_seconds=30.0)])
    assert placed.other_hosts == ("a",)


def test_copy_that_was_restored_under_another_name_is_another_vm() -> None:
    source, copy = called("x", "a", 0, WORKS), called("y", "b", 100, WORKS, received_seconds=10.0)
    assert names_of(source, copy) == [["x"], ["y"]]  # the source runs on
    assert names_of(source._replace(run=STOOD_STILL), copy._replace(received_seconds=90.0)) == [["x"], ["y"]]
    assert names_of(source._replace(born=200.0, first_seen=1.0), copy._replace(incoming=True, first_seen=2.0)) == [
        ["x"], ["y"],
    ]  # fmt: skip


# ---------------------------------------------------------------- the rule: one migration after another


def test_source_keeps_vm_until_destination_runs() -> None:
    assert where(process("a", 0, WORKS)) == ("a", RUNNING, ())
    assert where(process("a", 0, WORKS), incoming("b", 100)) == ("a", MIGRATING, ("b",))
    assert where(process("a", 0, STOOD_STILL), incoming("b", 100)) == ("a", MIGRATING, ("b",))  # idle, or paused
    assert where(process("a", 0, WORKS), incoming("b", 100, WORKS)) == ("a", MIGRATING, ("b",))  # it changes over
    assert where(process("a", 0, STOOD_STILL), incoming("b", 100, WORKS)) == ("b", MIGRATING, ("a",))
    assert where(process("a", 0, STOOD_STILL), incoming("b", 100, STOOD_STILL)) == ("b", MIGRATING, ("a",))
    assert where(incoming("b", 100, STOOD_STILL)) == ("b", RUNNING, ())


def test_receiving_process_does_not_make_vm_idle() -> None:
    assert where(incoming("b", 100)) == ("b", ARRIVING, ())
    assert where(incoming("b", 100, NOTHING)) == ("b", ARRIVING, ())
    assert where(incoming("b", 100, STOOD_STILL)) == ("b", RUNNING, ())
    assert where(process("b", 100, NEVER)) == ("b", RUNNING, ())  # it boots
    assert where(incoming("b", 100, kvm=False)) == ("b", RUNNING, ())


def test_busy_process_has_arrived_if_no_guest_time_is_counted() -> None:
    assert where(incoming("b", 100, accounted=False)) == ("b", ARRIVING, ())
    assert where(incoming("b", 100, accounted=False, cpu=Meter(0.0, 0.3))) == ("b", RUNNING, ())
    assert where(incoming("b", 100, cpu=Meter(0.5, 0.3))) == ("b", ARRIVING, ())  # what it receives takes CPU
    pair = process("a", 0, NEVER, cpu=STOOD_STILL), incoming("b", 100, NEVER, cpu=WORKS)
    assert where(*pair) == ("b", MIGRATING, ("a",))


def test_an_aborted_migration_reverts() -> None:
    assert where(process("a", 0, WORKS), incoming("b", 100, STOOD_STILL)) == ("a", MIGRATING, ("b",))
    assert where(process("a", 0, STOOD_STILL)) == ("a", RUNNING, ())


def test_source_and_destination_are_named_whoever_has_the_vm() -> None:
    for guest in (NEVER, WORKS):
        placed = settle("u", [incoming("b", 100, guest), process("a", 0, STOOD_STILL)])
        assert (placed.source, placed.destination) == ("a", "b")
        assert placed.other_host == {"a": "b", "b": "a"}[placed.host]
    alone = settle("u", [process("a", 0)])
    assert (alone.source, alone.destination, alone.other_host) == (None, None, None)


def test_late_source_keeps_vm_that_runs_nowhere_else() -> None:
    before = Meter(None, 0.6)  # of its newest record
    for state in (LATE, DOWN):
        source = process("a", 0, before, host_state=state, age_seconds=12.0)
        placed = settle("u", [source, incoming("b", 100)])
        assert (placed.host, placed.state, placed.host_state, placed.age_seconds) == ("a", MIGRATING, state, 12.0)
        assert where(source) == ("a", UNSEEN, ())
        unknown = source._replace(guest=NOTHING)
        assert where(unknown, incoming("b", 100)) == ("a", MIGRATING, ("b",))


def test_vm_restarted_elsewhere_is_placed_without_migration() -> None:
    lost = process("a", 0, Meter(None, 0.6), host_state=DOWN)
    assert where(lost, process("b", 100, NEVER)) == ("a", MIGRATING, ("b",))  # it boots, and has run nothing yet
    assert where(lost, process("b", 100, WORKS)) == ("b", RUNNING, ())
    assert where(lost, process("b", 100, STOOD_STILL)) == ("b", RUNNING, ())


def test_a_destination_that_went_late_keeps_what_it_had_taken_over() -> None:
    taken = incoming("b", 100, Meter(None, 0.1), host_state=LATE)
    assert where(process("a", 0, STOOD_STILL), taken) == ("b", MIGRATING, ("a",))
    assert where(process("a", 0, WORKS), taken) == ("a", MIGRATING, ("b",))  # it came back
    assert where(process("a", 0, STOOD_STILL), taken._replace(host_state=DOWN, unheard=True)) == ("a", RUNNING, ())


def test_entity_known_from_table_counts_until_another_has_run() -> None:
    stale = process("a", None, NOTHING, host_state=LATE, certain=False)
    assert where(stale, incoming("b", 100)) == ("a", MIGRATING, ("b",))
    assert where(stale, process("b", 100, STOOD_STILL)) == ("b", RUNNING, ())


def test_a_third_process_follows_the_second() -> None:
    paused = process("a", 0, STOOD_STILL)
    assert where(paused, incoming("b", 100, WORKS), incoming("c", 200)) == ("b", MIGRATING, ("a", "c"))
    assert where(paused, incoming("b", 100, STOOD_STILL), incoming("c", 200, WORKS)) == ("c", MIGRATING, ("a", "b"))


def test_a_migration_within_one_host() -> None:
    placed = settle("u", [process("a", 0, STOOD_STILL), incoming("a", 100, WORKS)])
    assert (placed.host, placed.other_hosts) == ("a", ("a",))
    assert placed.entity_id == entity_id("vm", "u", "a100")


def test_a_suspended_vm_is_where_its_oldest_process_is() -> None:
    assert where(process("a", 0, NEVER), incoming("b", 100, NOTHING)) == ("a", MIGRATING, ("b",))
    assert where(incoming("b", 100, NEVER), process("a", 0, NEVER)) == ("a", MIGRATING, ("b",))


# ---------------------------------------------------------------- what a host says of a VM of another


def seen(process: VmEvidence, since: float, now: float = 1000.0) -> VmEvidence:
    """The same, as the filter has seen it."""
    return process._replace(first_seen=since, filtered=now)


@pytest.mark.parametrize(
    ("claim", "state"),
    [
        (process("b", -1e9, WORKS), CONFLICT),
        (process("b", -1e9, Meter(None, 0.5)), CONFLICT),
        (process("b", -1e9, NEVER, kvm=False, cpu=WORKS), CONFLICT),
        (process("b", -1e9, NEVER, cpu=NOTHING), INCOMING),
        (process("b", -1e9), INCOMING),
        (process("b", -1e9, STOOD_STILL), INCOMING),
        (incoming("b", 100, NEVER, cpu=WORKS), INCOMING),  # receiving a guest takes CPU as well
        (incoming("b", 100, NEVER, kvm=False, cpu=WORKS), INCOMING),
    ],
)
@pytest.mark.parametrize("own", [process("a", 0, WORKS), process("a", 0, NEVER, kvm=False, cpu=WORKS)])
def test_who_was_seen_first_keeps_a_vm_that_it_runs(own: VmEvidence, claim: VmEvidence, state: str) -> None:
    own = seen(own, 100.0)
    assert where(seen(claim, 940.0), own) == ("a", MIGRATING, ("b",))
    assert where(seen(claim, 939.0), own) == ("a", state, ("b",))
    placed = settle("u", [seen(claim, 939.0), own])
    assert [each.host for each in placed.claimants] == (["b"] if state == CONFLICT else [])
    fresh = seen(process("c", 0, NEVER), 990.0)  # and a real migration beside it
    assert where(seen(claim, 939.0), own, fresh)[:2] == ("a", MIGRATING)


def test_a_migration_that_lasts_long_ends_where_the_guest_runs() -> None:
    source, target = seen(process("a", 0, STOOD_STILL), 100.0), seen(incoming("b", 100, WORKS), 500.0)
    assert where(source, target) == ("b", INCOMING, ("a",))
    assert settle("u", [source, target]).claimants == ()


@pytest.mark.parametrize(
    ("older", "younger", "place"),
    [
        (WORKS, NEVER, "a"),
        (WORKS, WORKS, "a"),  # receiving a guest takes CPU as well
        (STOOD_STILL, NEVER, "a"),
        (NEVER, NEVER, "a"),
        (STOOD_STILL, WORKS, "b"),
        (STOOD_STILL, Meter(0.0, 0.7), "b"),
        (STOOD_STILL, Meter(0.0, 0.5), "a"),
        (NOTHING, WORKS, "a"),  # nothing is known of it
        (STOOD_STILL, NOTHING, "a"),
    ],
)
def test_without_guest_time_cpu_time_decides(older: Meter, younger: Meter, place: str) -> None:
    first = process("a", 0, NEVER, kvm=False, cpu=older)
    second = process("b", 100, NEVER, kvm=False, cpu=younger)
    assert settle("u", [second, first]).host == place
    assert settle("u", [second, first]).state == MIGRATING
    down = first._replace(host_state=DOWN, unheard=True, cpu=Meter(None, 0.6))
    assert settle("u", [second, down]).host == ("b" if younger is WORKS else "a")


def emulated(host: str, born: float, run: Meter, **changes: object) -> VmEvidence:
    """A process whose kernel books no guest time; receiving and emulating take CPU."""
    return process(host, born, NEVER, kvm=False, cpu=WORKS, run=run, **changes)


@pytest.mark.parametrize(
    ("older", "younger", "expected"),
    [
        (WORKS, Meter(0.0007, 0.0001), ("a", MIGRATING)),  # it receives: its vCPUs have never run
        (STOOD_STILL, Meter(0.0, 0.0001), ("a", MIGRATING)),  # the guest stands still between the two
        (Meter(0.0, 0.0), Meter(0.0007, 0.01), ("a", MIGRATING)),  # an idle guest is not what was started last
        (STOOD_STILL, Meter(0.7, 0.1), ("b", MIGRATING)),
        (Meter(0.3, 0.6), Meter(0.2, 0.04), ("a", MIGRATING)),  # both in the tick of the switch
    ],
)
def test_where_guest_time_is_not_booked_vcpu_time_decides(
    older: Meter, younger: Meter, expected: tuple[str, str]
) -> None:
    assert where(emulated("a", 0, older), emulated("b", 100, younger, incoming=True))[:2] == expected


def test_busy_process_of_unreceived_guest_is_not_its_place() -> None:
    waiting = emulated("b", 100, Meter(0.0, 0.0001), incoming=True)
    assert where(emulated("a", 0, STOOD_STILL, host_state=DOWN), waiting)[0] == "a"
    assert where(waiting)[:2] == ("b", ARRIVING)


@pytest.mark.parametrize(
    ("first", "second", "twice"),
    [
        (WORKS, WORKS, True),
        (Meter(0.002, 0.002), Meter(0.9, 0.5), True),
        (Meter(0.3, 0.6), Meter(0.2, 0.04), False),  # the tick of a switch
        (STOOD_STILL, WORKS, False),
        (WORKS, Meter(0.0007, 0.0005), False),
        (WORKS, NOTHING, False),
    ],
)
def test_vm_runs_twice_where_vcpus_advance_on_two_hosts(first: Meter, second: Meter, twice: bool) -> None:
    for kind in (emulated, process):  # by vCPU time, and by guest time where that is booked
        both = [kind("a", 0, first), kind("b", 100, second)]
        assert settle("u", both).running_hosts == (("a", "b") if twice else ())
        gone = both[0]._replace(host_state=LATE)
        assert settle("u", [gone, both[1]]).running_hosts == ()
    assert settle("u", [emulated("a", 0, WORKS), emulated("a", 100, WORKS)]).running_hosts == ()


def test_without_any_age_the_one_that_has_worked_is_the_older() -> None:
    assert where(process("b", None, NEVER, kvm=False, cpu=NEVER), process("a", None, kvm=False, cpu=WORKS))[0] == "a"
    assert where(process("a", None, NEVER, kvm=False, cpu=NEVER), process("b", None, kvm=False, cpu=WORKS))[0] == "b"


METERS = st.builds(Meter, st.none() | st.floats(0, 4), st.none() | st.floats(0, 4))
EVIDENCE = st.lists(
    st.builds(
        process,
        st.sampled_from("abc"),
        st.none() | st.floats(-1e9, 1e9),
        METERS,
        host_state=st.sampled_from(STATES),
        certain=st.booleans(),
        cpu=METERS,
        kvm=st.booleans(),
        accounted=st.booleans(),
        incoming=st.booleans(),
        run=METERS,
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda each: (each.host_id, each.entity_id),
)


@given(EVIDENCE, st.randoms())
def test_there_is_one_place_whatever_is_reported(evidence: list[VmEvidence], random: object) -> None:
    placed = settle("u", evidence)
    shuffled = list(evidence)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert settle("u", shuffled) == placed
    (own,) = (each for each in evidence if (each.host_id, each.entity_id) == (placed.host_id, placed.entity_id))
    assert (placed.host, placed.host_state, placed.age_seconds) == (own.host, own.host_state, own.age_seconds)
    assert placed.state in placement.STATES
    assert (placed.state == MIGRATING) == bool(placed.other_hosts)
    assert set(placed.evidence) == set(evidence)


@given(EVIDENCE)
def test_process_without_guest_time_does_not_take_the_vm(evidence: list[VmEvidence]) -> None:
    placed = settle("u", evidence)
    oldest = placed.evidence[0]
    (place,) = (each for each in evidence if (each.host_id, each.entity_id) == (placed.host_id, placed.entity_id))
    if oldest.works and oldest.host_state == CURRENT:
        assert place == oldest
        return
    if any(each.guest.ever for each in evidence):
        assert place.guest.ever
    if any(each.guest.now for each in evidence):
        assert place.guest.now


# ---------------------------------------------------------------- what blocks say

METRICS = (
    Metric("cpu_guest_ratio", "cores", "counter", 0.0, INFINITY, ""),
    Metric("cpu_ratio", "cores", "counter", 0.0, INFINITY, ""),
)
TICK = 1_000_000
NOW = TICK + 1.6
DUE = Due(NOW, 0.5, 3)


def vm(uuid: str, epoch: str, kind: str = "vm", **labels: str) -> Entity:
    return Entity(entity_id(kind, uuid, epoch), kind, uuid, epoch, f"guest {uuid}", labels)


def block_of(
    host: str,
    entities: list[Entity],
    mean: float = 0.5,
    *,
    tick: int = TICK,
    wall: float | None = None,
    filtered: float | None = None,
    exceptions: list[tuple[int, int, float]] | None = None,
    resource_set: str = "vms",
    metrics: tuple[Metric, ...] = METRICS,
) -> Block:
    number, set_number = host_id(host), resource_set_id(resource_set)
    wall = tick + 0.5 if wall is None else wall
    data = record(
        number, set_number, [each.id for each in entities], np.full((len(entities), len(metrics)), mean), tick,
        schema=schema_hash(metrics), wall=wall, filtered=TICK + 0.7 if filtered is None else filtered,
        exceptions=exceptions or (),
    )  # fmt: skip
    block = records.begin(Member("", number, set_number, ""), Place(Position(5, tick, tick, wall, 1.0), None))
    records.judge_coherent(block, data, TICK, DUE)
    if not block.has_values:
        head = smoothed.unpack_head(data)
        block.take_rows(head, data[smoothed.HEADER_SIZE : head.planes_at])
        records.remember(block, data)
    block.use_names(Names(Table(host, resource_set, 1.0, "test", True, metrics, tuple(entities))), None)
    causes.look([block], Visibility({}, [""]), NOW, 10.0)
    return block


def test_a_claim_from_a_block() -> None:
    other = vm("v", "1")
    found = evidence_of(
        block_of("a", [other, vm("u", "1", started="100.5", accelerator="kvm", incoming="yes")], wall=TICK + 0.5), 1
    )
    assert (found.host, found.host_state, found.kvm, found.incoming, found.certain) == ("a", CURRENT, True, True, True)
    # monotonic is the wall clock in these records: the process started 100.5 s after that began
    assert found.born == pytest.approx(TICK + 0.7 - (TICK + 0.5 - 100.5))
    assert (found.guest, found.cpu, found.accounted) == (Meter(1.5, 0.5), Meter(1.5, 0.5), True)
    plain = evidence_of(block_of("a", [other]), 0)
    assert (plain.born, plain.kvm, plain.incoming) == (None, False, False)


def test_only_valid_samples_of_this_tick_are_of_now() -> None:
    entities = [vm("u", "1")]
    assert evidence_of(block_of("a", entities, exceptions=[(0, codes.STUCK, 3.0)]), 0).guest == Meter(None, 0.5)
    assert evidence_of(block_of("a", entities, exceptions=[(0, codes.OUTLIER_FLAG, 0.0)]), 0).guest == Meter(1.5, 0.5)
    assert evidence_of(block_of("a", entities, math.nan), 0).guest == NOTHING
    late = block_of("a", entities, tick=TICK - 1)
    assert (late.state, late.has_values, evidence_of(late, 0).guest) == (LATE, False, Meter(None, 0.5))


def test_metrics_that_are_not_there() -> None:
    block = block_of("a", [vm("u", "1")], metrics=METRICS[1:])
    assert (evidence_of(block, 0).guest, evidence_of(block, 0).cpu) == (NOTHING, Meter(1.5, 0.5))
    assert not evidence_of(block, 0).accounted


@pytest.mark.parametrize("started", ["", "soon", "nan", "inf", "1e999"])
def test_a_start_that_is_none(started: str) -> None:
    assert evidence_of(block_of("a", [vm("u", "1", started=started)]), 0).born is None


@given(step=st.floats(-1e6, 1e6), other=st.floats(-1e6, 1e6))
def test_no_wall_clock_of_a_host_decides(step: float, other: float) -> None:
    """The record of the tick is taken or not by its number; within it the wall clock of the host says nothing."""
    entities = {host: [vm("u", host, started=started)] for host, started in (("a", "5"), ("b", "4"))}
    blocks = [block_of(host, entities[host]) for host in "ab"]
    stepped = [block_of(host, entities[host]) for host in "ab"]
    for block, seconds in zip(stepped, (step, other), strict=True):
        assert block.head is not None
        block.wall += seconds
        block.take(block.head._replace(wall=block.head.wall + seconds), block.data)
    before, after = (Placements.of(each).contested["u"] for each in (blocks, stepped))
    assert (before.host, before.state, before.evidence) == (after.host, after.state, after.evidence)


def test_a_block_of_which_only_the_names_are_known() -> None:
    number, set_number = host_id("a"), resource_set_id("vms")
    block = records.begin(
        Member("", number, set_number, ""), Place(Position(5, 1, TICK, TICK, 1.0), TemporaryError("shard 0 is away"))
    )
    block.use_names(Names(Table("a", "vms", 1.0, "test", True, METRICS, (vm("u", "1", started="3"),))), None)
    found = evidence_of(block, 0)
    assert (found.certain, found.born, found.guest, found.host_state) == (False, None, NOTHING, LATE)


def test_shadows_are_those_that_are_not_their_place() -> None:
    source, target = vm("u", "1", started="1000"), vm("u", "2", started="999990", accelerator="kvm", incoming="yes")
    single, process = vm("w", "1"), vm("p", "1", kind="process")
    blocks = [
        block_of("a", [source, single], 0.5),
        block_of("b", [target], math.nan),
        block_of("b", [process], resource_set="processes"),
        block_of("a", [process], resource_set="processes"),
    ]
    placements = Placements.of(blocks)
    assert set(placements.contested) == {"u"}
    assert placements.shadows == {(host_id("b"), target.id)}
    assert placements.is_shadow(host_id("b"), target.id)
    assert not placements.is_shadow(host_id("a"), source.id)
    assert [placements.is_migrating(uuid) for uuid in ("u", "w", "nobody")] == [True, False, False]
    places = {vm: (each.host, each.state) for vm, each in placements.all.items()}
    assert places == {"u": ("a", MIGRATING), "w": ("a", RUNNING)}
    rows = Snapshot("coherent", NOW, blocks, []).rows(metric="cpu_ratio")
    assert [(row.host, row.stable, row.placement) for row in rows] == [
        ("a", "p", ""), ("a", "u", "migrating"), ("a", "w", ""), ("b", "p", ""), ("b", "u", "shadow"),
    ]  # fmt: skip


def test_one_machine_that_reports_under_two_names() -> None:
    """The same process, so the same entity: a shadow is a row of a host, not an entity."""
    entity = vm("u", "boot:1:2", started="5")
    placements = Placements.of([block_of("new-name", [entity]), block_of("old-name", [entity], tick=TICK - 60)])
    placed = placements.contested["u"]
    assert placements.shadows == {(host_id(placed.other_host or ""), entity.id)}


WORLD = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["vms", "processes"])),
    st.lists(
        st.tuples(st.sampled_from("uvwx"), st.sampled_from("12"), st.sampled_from(["vm", "vm", "process"])), min_size=1
    ),
    max_size=6,
)


@given(st.lists(WORLD, max_size=6))
def test_the_cache_finds_what_a_look_at_everything_finds(
    worlds: list[dict[tuple[str, str], list[tuple[str, ...]]]],
) -> None:
    index = EvidenceIndex()
    for world in worlds:
        blocks = [
            block_of(host, [vm(uuid, epoch, kind) for uuid, epoch, kind in rows], resource_set=name)
            for (host, name), rows in world.items()
        ]
        index.take(blocks)
        index.forget({(block.host_id, block.set_id) for block in blocks})
        found, there = index.contested(), {(block.host_id, block.set_id): block for block in blocks}
        reported = [entity.stable for block in blocks for entity in block.entities if entity.kind == "vm"]
        assert set(found) == {uuid for uuid in reported if reported.count(uuid) > 1}
        for uuid, owners in found.items():
            assert len(evidence_by_vm({uuid}, [there[owner] for owner in owners])[uuid]) == reported.count(uuid)


def test_a_narrow_reading_leaves_the_cache_alone() -> None:
    a, b = block_of("a", [vm("u", "1")]), block_of("b", [vm("u", "2")])
    first, second = ((block.host_id, block.set_id) for block in (a, b))
    index = EvidenceIndex()
    index.take([a, b])
    assert set(index.contested()) == set(index.contested({first, second})) == {"u"}
    index.take([a])
    assert index.contested({first}) == {}
    assert set(index.contested()) == {"u"}
    index.forget({first})
    assert index.contested() == {}
