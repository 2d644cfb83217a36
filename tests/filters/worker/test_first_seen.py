"""Since when a host has reported a VM: the filter says so, whatever the host says."""

from __future__ import annotations

import numpy as np
import pytest

from acquisition.errors import FrameError
from acquisition.model.metric import Metric
from acquisition.wire import table
from acquisition.wire.table import FIRST_SEEN, Entity, Table
from filters.worker.states.first_seen import stamped

METRICS = (Metric("cpu_ratio", "cores", "counter", 0.0, 1.0, ""),)


def payload(*entities: Entity, complete: bool = True) -> bytes:
    return table.encode(Table("h", "vms", 1.0, "test", complete, METRICS, entities))


def since(data: bytes) -> dict[int, str]:
    return {entity.id: entity.labels.get(FIRST_SEEN, "") for entity in table.decode(data).entities}


def vm(number: int, stable: str, **labels: str) -> Entity:
    return Entity(number, "vm", stable, str(number), stable, labels)


def rows(*ids: int) -> bytes:
    return np.array(ids, "<u8").tobytes()


def test_what_a_host_says_itself_counts_for_nothing() -> None:
    forged = payload(vm(1, "u", first_seen="1.0"))
    assert since(stamped(forged, b"", None, 100.0)) == {1: "100.000"}
    assert since(stamped(forged.replace(b'"vm"', b'"\\u0076m"'), b"", None, 100.0)) == {1: "100.000"}


def test_it_lasts_as_long_as_the_vm_is_reported_without_a_break() -> None:
    before = stamped(payload(vm(1, "u"), vm(2, "v")), b"", None, 100.0)
    after = stamped(payload(vm(3, "u"), vm(2, "v"), vm(4, "w")), before, rows(1, 2), 200.0)
    assert since(after) == {3: "100.000", 2: "100.000", 4: "200.000"}  # u was started again
    assert since(stamped(payload(vm(1, "u")), before, rows(2), 200.0)) == {1: "200.000"}  # it had been elsewhere
    assert since(stamped(payload(vm(1, "u")), before, b"", 200.0)) == {1: "200.000"}
    assert since(stamped(payload(vm(1, "u")), before, None, 200.0)) == {1: "100.000"}  # nobody knows that it had


def test_other_tables_stay_as_they_are() -> None:
    plain = payload(Entity(1, "process", "h:1", "1", "sh"))
    assert stamped(plain, b"", None, 100.0) is plain
    with pytest.raises(FrameError):
        stamped(b'{"vm"', b"", None, 100.0)
