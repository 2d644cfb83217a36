import numpy as np
import pytest

from acquisition.model import codes as validity
from experiments.emulation.values import Strip
from experiments.emulation.workload import Workload, resource_set

WORKLOAD = Workload(hosts=10, entities=101, metrics=15, seed=3)


def cut_arrays(strip, host, number, entities=101):
    values, codes = strip.cut(strip.row(strip.start(host), number), entities)
    shape = (entities, strip.metrics)
    flags = np.frombuffer(codes, np.uint8).reshape(shape) if codes else np.zeros(shape, np.uint8)
    return np.frombuffer(values, np.float32).reshape(shape), flags


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    one, two, other = Strip(WORKLOAD), Strip(WORKLOAD), Strip(WORKLOAD._replace(seed=4))
    for number in (0, 1, 1000):
        row = one.row(one.start(7), number)
        assert one.cut(row, 101) == two.cut(two.row(two.start(7), number), 101)
        assert one.cut(row, 101) != other.cut(other.row(other.start(7), number), 101)


@pytest.mark.parametrize("entities", [1, 2, 101, 127, 5000])
def test_every_value_changes_at_every_tick(entities):
    strip = Strip(WORKLOAD._replace(entities=entities, invalid=0.0))
    before, _ = cut_arrays(strip, 0, 0, entities)
    for number in range(1, 100):
        after, _ = cut_arrays(strip, 0, number, entities)
        assert np.mean(before == after) < 0.001
        before = after


def test_invalid_samples_have_configured_share_and_bad_values():
    strip = Strip(WORKLOAD)
    plain = strip.codes & validity.CODE_MASK
    assert np.count_nonzero(plain) / plain.size == pytest.approx(0.01, abs=0.001)
    metrics = resource_set(15).metrics
    low, high = (np.array([getattr(m, side) for m in metrics]) for side in ("low", "high"))
    assert np.all((strip.values >= low) & (strip.values <= high) | (plain != 0))
    out_of_range = plain == validity.RANGE
    assert np.all(((strip.values < low) | (strip.values > high))[out_of_range])
    assert np.all(np.isnan(strip.values[(plain == validity.MISSING) | (plain == validity.TIMEOUT)]))
    assert np.any(strip.codes == validity.OUTLIER_FLAG)
