"""What the vCPUs of a real guest have had, with and without a limit: a small run of the experiment."""

from __future__ import annotations

import json

import pytest

from experiments import vcpu_error


@pytest.mark.needs("qemu-system-x86_64")
def test_limit_of_a_guest_is_told_from_its_suffering(capsys: pytest.CaptureFixture[str]) -> None:
    code = vcpu_error.main(["--pairs", "2", "--seconds", "0.5", "--burners", "0"])
    found = capsys.readouterr()
    if "no cgroup with a limit can be made" in found.err:
        pytest.skip(found.err.strip())
    alone = json.loads(found.out)["alone"]
    assert code == 0
    assert alone["throttled_capped"] > 0.0
    assert alone["suffering_capped"]["mean"] <= alone["delay_capped"]
