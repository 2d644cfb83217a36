"""What it costs to watch VMs: real guests of a real libvirtd, and what is made of the figures."""

from __future__ import annotations

import json

import pytest

from acquisition.errors import EXIT_UNAVAILABLE
from experiments.processes.needs import lacking
from experiments.vms import __main__ as vms
from experiments.vms.watchers import COLLECTD, EXPORTER, NOBODY, PROBE, Cost

MISSING = lacking(*vms.NEEDS)


@pytest.mark.skipif(bool(MISSING), reason=f"NO LIBVIRT IS WATCHED HERE: {MISSING}")
def test_two_guests_are_watched_and_killed(capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        vms.main(["--guests", "2", "--seconds", "0.5", "--repeats", "1", "--storms", "1", "--only", "storms", "--json"])
        == 0
    )
    answer = json.loads(capfd.readouterr().out)
    assert answer["failures"] == []
    before, after = answer["storms"]["descriptors"]
    assert after <= before


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert vms.main([]) == EXIT_UNAVAILABLE
    assert "there is no virsh: apt install libvirt-clients" in capsys.readouterr().err


def test_what_a_system_adds_is_above_what_nobody_costs() -> None:
    found = vms._compared(
        {NOBODY: Cost(0.0, 0.01, 0.04, 0.0), PROBE: Cost(0.002, 0.01, 0.04, 9e6), COLLECTD: Cost(0.02, 0.05, 0.09, 8e6)}
    )
    assert found[PROBE]["added"] == pytest.approx(0.002)
    assert found[COLLECTD]["times"] == pytest.approx(30.0)
    assert found[COLLECTD]["times_with_qemu"] == pytest.approx(55.0)
    assert vms._missed({"systems": found, "ratio": [{"guests": 10, "ratio": 1.2}]}) == [
        "ratio(i) is 1.20, at most 1.1 was to be"
    ]


def test_system_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert vms._absent(EXPORTER) == "there is no prometheus-libvirt-exporter: apt install prometheus-libvirt-exporter"
    assert vms._absent(PROBE) == ""
