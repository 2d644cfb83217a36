from itertools import pairwise

import pytest

from experiments.emulation.membership import Membership, entity, first_serials
from experiments.emulation.workload import Workload


def history(workload, host, frames):
    membership = Membership(workload, host, first_serials(workload))
    rows = []
    for number in range(frames):
        came = membership.step(number)
        rows.append((came, membership.members))
    return rows


@pytest.mark.parametrize("entities", [1, 2, 3, 101])
def test_entities_come_and_go_and_never_come_back(entities):
    rows = history(Workload(4, entities, 5), 1, 200)
    gone: set[int] = set()
    for (_, before), (came, after) in pairwise(rows):
        new, left = set(after.serials) - set(before.serials), set(before.serials) - set(after.serials)
        assert came == bool(new)
        assert not new & gone
        gone |= left
        assert after.serials[0] == 0
        assert max(1, entities - 2) <= len(after.serials) <= entities + 1
    assert (rows[-1][1].changes > 30) == (entities > 1)


def test_ids_are_those_of_the_table():
    workload = Workload(4, 11, 5)
    membership = Membership(workload, 2, first_serials(workload))
    for number in range(50):
        membership.step(number)
        expected = b"".join(row.id.to_bytes(8, "little") for row in membership.entities())
        assert membership.members.ids == expected


def test_history_repeats_by_seed_and_host():
    workload = Workload(4, 11, 5)
    assert history(workload, 2, 100) == history(workload, 2, 100)
    assert history(workload, 2, 100) != history(workload._replace(seed=9), 2, 100)


def test_the_first_row_is_the_host():
    assert entity(3, 0).kind == "host"
    assert entity(3, 1).kind == "vm"
    assert entity(3, 1).id != entity(4, 1).id
