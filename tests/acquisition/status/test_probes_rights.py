"""A probe without root says so, and ``status`` says which figures are invalid for that, and what to do."""

from __future__ import annotations

import pytest

from acquisition.status.finding import NOTE, of_probes
from acquisition.wire.status import Status
from probes.loop.account import reads_others


def report(said: object) -> Status:
    return Status("web", 1.0, {}, {"probe": said})


def test_the_figures_that_are_missing_are_named_once_for_all_probes() -> None:
    reports = [report({"reads_others": False}), report({"reads_others": True}), report({}), report(None)]
    (finding,) = of_probes(reports)
    assert (finding.kind, finding.about) == (NOTE, "rights of probes")
    assert finding.text.startswith("1 of 4 run without CAP_SYS_PTRACE")
    assert "disk_read_bytes_per_second" in finding.text
    assert of_probes(reports[1:]) == []


@pytest.mark.parametrize(("error", "readable"), [(PermissionError, False), (FileNotFoundError, True)])
def test_only_what_is_refused_is_unreadable(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError], readable: bool
) -> None:
    capabilities = b"0"

    def read(path: str) -> bytes:
        if path == "/proc/self/status":
            return b"Name:\tx\nCapEff:\t%s\nCapBnd:\t0\n" % capabilities
        raise error

    monkeypatch.setattr("probes.loop.account.read_once", read)
    assert reads_others() == readable
    capabilities = b"0000000000080004"
    assert reads_others()
