"""The verifier against real blocks that are right, and against every way in which they can be wrong."""

import numpy as np
import pytest

from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.names import Names
from acquisition.wire.position import Position
from acquisition.wire.records import smoothed
from acquisition.wire.records.planes import OWN
from acquisition.wire.table import Table
from experiments.emulation.membership import Membership, first_serials
from experiments.emulation.values import Strip
from experiments.emulation.workload import Workload, host_name, host_number, resource_set
from experiments.harness.scalar_model import Observation, run
from experiments.harness.verification import choose_hosts, verify

WORKLOAD = Workload(hosts=1, entities=4, metrics=3, seed=5, invalid=0.1, churn_per_hour=1e6)
TIMES = [100.0 + 0.9 * number for number in range(40)]
TAU = 5.0


def correct_planes():
    strip = Strip(WORKLOAD)
    membership = Membership(WORKLOAD, 0, first_serials(WORKLOAD))
    series: dict[int, list[list[Observation]]] = {}
    for number, monotonic in enumerate(TIMES):
        membership.step(number)
        for place, serial in enumerate(membership.members.serials):
            row = strip.row(strip.start(0), number) + place
            columns = series.setdefault(serial, [[] for _ in range(3)])
            for column in range(3):
                value, code = strip.values[row, column], strip.codes[row, column]
                columns[column].append(Observation(monotonic, float(value), int(code)))
    states = [[run(column, TAU) for column in series[serial]] for serial in membership.members.serials]
    planes = {
        plane.name: np.array([[getattr(s, plane.name) for s in row] for row in states], np.float32) for plane in OWN
    }
    return membership, planes, np.array([[s.code & 0x7F for s in row] for row in states], np.uint8)


def block_of(membership, planes, codes):
    metrics = resource_set(3).metrics
    rows = len(membership.members.serials)
    exceptions = np.zeros(np.count_nonzero(codes), smoothed.EXCEPTION)
    exceptions["index"] = np.flatnonzero(codes)
    exceptions["code"] = codes.ravel()[exceptions["index"]]
    number, set_id = host_number(0), resource_set_id("vms")
    head = smoothed.HEADER.pack(
        smoothed.MAGIC, smoothed.VERSION, 4, 3, rows, len(exceptions), number, set_id, schema_hash(metrics),
        1.0, 0, bytes([1, 2, 3, 4]).ljust(8, b"\0"), 1, 40, 100, 100.0, 100.0, 100.0,
    )  # fmt: skip
    cube = b"".join(planes[name].astype("<f4").tobytes() for name in ("last", "mean", "variance", "trend"))
    data = head + membership.members.ids + cube + exceptions.tobytes()
    block = Block(number, set_id, Position(1, 40, 100, 100.0, 1.0))
    block.take(smoothed.unpack_head(data), data)
    table = Table(host_name(0), "vms", 1.0, "test", True, metrics, membership.entities())
    block.use_names(Names(table), None)
    return block


def judge(block):
    return verify({host_number(0): block}, WORKLOAD, {0: TIMES}, [0] * 20, TAU)


def test_equal_states_pass():
    verdict = judge(block_of(*correct_planes()))
    assert verdict.samples == 60
    assert verdict.mismatches == 0, verdict.examples
    assert verdict.worst < 0.5


@pytest.mark.parametrize("plane", ["mean", "variance", "trend", "last"])
def test_a_figure_that_is_off_by_a_ten_thousandth_fails(plane):
    membership, planes, codes = correct_planes()
    planes[plane] *= 1.0001
    assert judge(block_of(membership, planes, codes)).mismatches > 0


def test_a_wrong_code_fails():
    membership, planes, codes = correct_planes()
    assert judge(block_of(membership, planes, codes ^ 1)).mismatches == 60


def test_rows_in_another_order_fail():
    membership, planes, codes = correct_planes()
    block = block_of(membership, planes, codes)
    serials, ids, changes = membership.members
    membership.members = membership.members._replace(ids=ids[8:16] + ids[:8] + ids[16:])
    assert serials
    assert changes
    assert judge(block_of(membership, planes, codes)).mismatches == 60
    assert judge(block).mismatches == 0


def test_a_host_without_values_fails():
    assert verify({}, WORKLOAD, {0: TIMES}, [0], TAU).mismatches == 3


def test_a_host_that_made_nothing_fails():
    assert verify({host_number(0): block_of(*correct_planes())}, WORKLOAD, {0: []}, [0], TAU).mismatches == 3


def test_checked_hosts_are_chosen_by_seed():
    many = Workload(hosts=1000, entities=4, metrics=3)
    assert choose_hosts(many, 50) == choose_hosts(many, 50)
    assert choose_hosts(many, 50) != choose_hosts(many._replace(seed=2), 50)
