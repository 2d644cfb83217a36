"""A real guest, real probes, real shards: where readers see it while it migrates."""

from __future__ import annotations

import json

import pytest

from experiments import live_migration
from experiments.processes.guest import busy_floppy
from experiments.processes.needs import lacking

MISSING = lacking(*live_migration.NEEDS)


@pytest.mark.skipif(bool(MISSING), reason=f"NO REAL GUEST IS MIGRATED HERE: {MISSING}")
def test_a_guest_that_migrates(capsys: pytest.CaptureFixture[str]) -> None:
    code = live_migration.main(["--migrations", "4"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["failures"] == []
    assert code == 0
    assert answer["ends"] == dict.fromkeys(live_migration.ENDS, 1)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert live_migration.main([]) == 69
    assert "there is no qemu-system-x86_64: apt install" in capsys.readouterr().err


def test_the_floppy_boots() -> None:
    image = busy_floppy()
    assert len(image) == 1440 * 1024
    assert image[510:512] == bytes([0x55, 0xAA])
