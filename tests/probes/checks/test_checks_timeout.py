import math

from acquisition.model.codes import TIMEOUT
from acquisition.wire.table import Entity
from probes.checks import build_pipeline
from probes.checks.timeout import timed_out
from probes.metrics import PROCESSES
from tests.support.check_cases import run_fixture


def test_fixture() -> None:
    assert run_fixture("timeout") > 0


def test_reading_of_a_source_that_did_not_answer() -> None:
    reading = timed_out(PROCESSES, [Entity(1, "process", "1", "", "")], 100.0, 10.0)
    build_pipeline(PROCESSES)(reading)
    assert set(reading.codes) == {TIMEOUT}
    assert all(map(math.isnan, reading.values))
