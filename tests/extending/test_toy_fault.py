"""A new kind of fault is one function, entered in the registry: it is dealt, explained, made and reported."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from experiments.chaos import schedule
from experiments.chaos.__main__ import main
from experiments.chaos.faults import KINDS
from experiments.chaos.faults.targets import master_of
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, Kind, kind
from experiments.chaos.options import Options
from experiments.testbed import missing_for_shards

LACK = missing_for_shards()
FLUSHED: list[str] = []


@kind("workers", "shard", 0.5, 1.0)
def flush_scripts(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master forgets the scripts that it was sent."""
    FLUSHED.append(master_of(installation, fault).call("SCRIPT", "FLUSH").decode())
    yield


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Kind:
    monkeypatch.setitem(KINDS, flush_scripts.name, flush_scripts)
    return flush_scripts


def test_it_is_in_the_schedule_and_disturbs_nobody_elses() -> None:
    scene = Options().scene
    dealt = schedule.make(3, 300.0, scene)
    assert "flush_scripts" in {fault.kind for fault in dealt}
    assert {fault.kind for fault in schedule.make(3, 60.0, scene, ["flush_scripts"])} == {"flush_scripts"}


def test_it_is_explained_and_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "flush_scripts     A master forgets the scripts that it was sent." in capsys.readouterr().out
    assert main(["--seconds", "30", "--seed", "3", "--only", "flush_scripts", "--schedule"]) == 0
    assert "flush_scripts" in capsys.readouterr().out


@pytest.mark.skipif(bool(LACK), reason=f"THE TOY FAULT IS NOT MADE HERE: {LACK}")
def test_it_is_made_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--hosts", "4", "--workers", "1", "--generators", "1", "--seconds", "6", "--seed", "8"]
    options += ["--archivers", "0"]
    assert main([*options, "--only", "flush_scripts", "--json"]) == 0, capsys.readouterr()
    found = json.loads(capsys.readouterr().out)
    assert found["faults"]["flush_scripts"]["made"] == len(FLUSHED) > 0
    assert set(FLUSHED) == {"OK"}
