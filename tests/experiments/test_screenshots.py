"""The picture of the page is taken from the real pipeline."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path

import msgspec
import pytest

from acquisition.config.decisions import Decisions
from acquisition.model.derived import WAITING
from experiments.screenshots import words
from experiments.screenshots.__main__ import main
from filters.decisions.deciding import decide
from filters.decisions.method import method_of
from filters.decisions.migrations import Log, Migrations
from filters.decisions.picture import CPU
from filters.documents.verdicts import hot_document, moves_document
from tests.support import ROOT
from tests.support.pictures import constant, host, inputs, picture, reading, vm
from tests.support.untested import require


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of a PNG (its IHDR chunk)."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_small_data_center_is_pictured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require("chromium")
    picture = tmp_path / "images" / "page.png"
    options = ["--racks", "2", "--in-rack", "3", "--hot", "0", "--watch", "1", "--width", "800", "--height", "600"]
    assert main(["--to", str(picture), *options]) == 0, capsys.readouterr().err
    assert size_of(picture) == (800, 600)


def test_the_picture_of_the_front_page_is_there() -> None:
    picture = ROOT / "docs" / "images" / "page.png"
    assert size_of(picture) == (1400, 900)
    assert picture.stat().st_size < 300_000


def shipped() -> words.Words:
    """What a hot host, the VM that leaves it and its destination are given as reasons by default."""
    method = method_of(Decisions())
    guests = [vm("a", 3.0, 4), vm("b", 4.5, 8)]
    found: list[words.Words] = []
    guests_or_tasks = (("rack1-host1", 2.0), ("this-machine", 0.0))  # wait
    for (name, suffering), busy, waits in itertools.product(guests_or_tasks, (0.0, 40.0), (0.0, 40.0)):
        counted = inputs(threshold=0.9, above=8, counted=8, counted_valid=8, time_above_seconds=busy)
        waited = inputs(threshold=0.05, above=8, counted=8, counted_valid=8, time_above_seconds=waits)
        extra = {
            CPU: reading(CPU, [0.94] * 32, inputs=counted), WAITING: constant(WAITING, 0.08, inputs=waited),
            "vms_suffering_ratio": constant("vms_suffering_ratio", suffering),
        }  # fmt: skip
        seen = picture(host(name, guests, extra=extra), host("cool", [vm("c", 0.5)]))
        decided = decide(seen, method, Log(Migrations(), seen.now), frozenset())
        hot, moves = (msgspec.to_builtins(make(decided)) for make in (hot_document, moves_document))
        found.append(words.of(hot, moves))
    for each in found[1:]:
        found[0]["reasons"] = {key: found[0]["reasons"][key] + each["reasons"][key] for key in each["reasons"]}
    return found[0]


def test_the_picture_of_the_front_page_says_what_the_code_says() -> None:
    told = json.loads(words.stamp(ROOT / "docs" / "images" / "page.png").read_text())
    today = shipped()
    again = "take the picture again: python -m experiments.screenshots"
    for key in ("rule", "selection", "placement"):
        assert told[key] == today[key], again
    for key, reasons in told["reasons"].items():
        assert reasons, again
        assert set(reasons) <= set(today["reasons"][key]), again
