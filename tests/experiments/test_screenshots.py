"""The picture of the page is taken from the real pipeline."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from experiments.screenshots.__main__ import main
from tests.support import ROOT
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


def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # before it is said that there is no browser
    assert main(["--racks", "1", "--hot", "2"]) == 2
    assert "hot host" in capsys.readouterr().err


def test_the_picture_of_the_front_page_is_there() -> None:
    picture = ROOT / "docs" / "images" / "page.png"
    assert size_of(picture) == (1400, 900)
    assert picture.stat().st_size < 300_000
