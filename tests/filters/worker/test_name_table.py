"""A worker learns from a table what `acquisition.wire.table` reads in it, and refuses what that refuses."""

from __future__ import annotations

import numpy as np
import pytest

from acquisition.errors import FrameError
from acquisition.model.metric import Metric, schema_hash
from acquisition.wire import table
from acquisition.wire.table import Entity, Table
from filters.worker.states.name_table import learn
from tests.support.inputs_bench import Bench, names

_METRICS = (Metric("cpu_ratio", "ratio", "gauge", 0.0, float("inf"), "of all"), Metric("n", "1/s", "counter", 0, 9, ""))
_ROWS = tuple(Entity((1 << 63) - 7 * n, "vm", f"vm/{n}", "1", f"müßig-{n}", {"tenant": "a"}) for n in range(5))
_WHOLE = table.encode(Table("host", "vms", 1.0, "procfs", True, _METRICS, _ROWS))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b""),
        (b'"complete":true', b'"complete":false'),
        (b'"complete":true', b'"complete":1'),
        (b'"interval":1.0', b'"interval":1'),
        (b'"interval":1.0', b'"interval":0'),
        (b'"interval":1.0', b'"interval":1e999'),
        (b'"interval":1.0', b'"interval":NaN'),
        (b'"source"', b'"unknown":"\\ud800","source"'),
        (b'"source"', b'"host":7,"source"'),
        (b'"tenant":"a"', b'"tenant":7'),
        (b'"tenant":"a"', b'"tenant":"\\udfff"'),
        (b'"tenant":"a"', b'"tenant":"\xff"'),
        (b'["7f', b'["7F'),
        (b'["7f', b'["7f00'),
        (b'["7f', b'[" 7'),
        (b'"vm/2"', b'"vm/2","more"'),
        (b",0.0,", b',"0",'),
        (b"]}", b"]"),
    ],
)
def test_a_table_says_the_same_to_a_worker_as_to_everybody(old: bytes, new: bytes) -> None:
    payload = _WHOLE.replace(old, new, 1) if old else _WHOLE
    assert payload != _WHOLE or not old
    try:
        read = table.decode(payload)
    except FrameError:
        with pytest.raises(FrameError):
            learn(None, payload)
        return
    learnt = learn(None, payload)
    assert learnt.ids.tolist() == sorted(entity.id for entity in read.entities)
    assert learnt.ids.dtype == np.uint64
    assert learnt.metrics == tuple(metric.name for metric in read.metrics)
    assert learnt.schema == schema_hash(read.metrics)
    assert learnt.payload == payload


def test_names_of_the_same_columns_do_not_interrupt_the_step() -> None:
    bench = Bench()
    for tick in (1, 2):
        bench.feed(bench.item(1, float(tick), [1, 2], np.full((2, 4), 0.5)))
    state = bench.state(1)
    stepper = state.stepper
    state.learn(learn(None, names()), None)
    assert state.stepper is stepper
    bench.feed(bench.item(1, 3.0, [1, 2], np.full((2, 4), 0.5)))
    assert state.stepper is stepper
    state.learn(learn(None, names(_METRICS)), None)
    assert state.stepper is None
