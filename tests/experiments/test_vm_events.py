"""Real guests start and stop, and every reader sees it: a small run of the experiment."""

from __future__ import annotations

import json

import pytest

from experiments import vm_events

PATIENT = "5"  #: seconds: a busy machine, on which what counts is what is left over


@pytest.mark.needs("qemu-system-x86_64")
def test_guests_that_start_and_stop_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code = vm_events.main(["--vms", "3", "--together", "3", "--storms", "1", "--size", "3", "--within", PATIENT])
    answer = json.loads(capsys.readouterr().out)
    assert (answer["failures"], answer["descriptors_left"]) == ([], 0)
    assert (answer["starts"]["guests"], answer["stops"]["guests"]) == (3, 3)
    assert code == 0
