"""The figure of storage: points are measured, also in a guest, and the figure is drawn from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure as Plot

from acquisition.errors import UnavailableError
from experiments.paper.figure import Extent, Point, Record, Records
from experiments.paper.storage import GUEST, PLAIN, SLOWED, STORAGE, run_in_guest
from experiments.processes import linux_guest, throttle
from probes.sources.storage import Options

QUICK = Extent(1.0, True)


@pytest.fixture
def guest() -> None:
    """A guest can start. Tests install no kernel: a real machine would boot it."""
    if reason := linux_guest.lacking():
        pytest.skip(f"NO GUEST IS MEASURED HERE: {reason}")


def measured(point: Point, directory: Path) -> list[Record]:
    return [Record(point.name, point.parameters, row) for row in point.measure(QUICK, directory)]


def nothing_is_left(directory: Path) -> bool:
    """No file, and no process with the directory in its command line."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes())
        except OSError:
            continue  # it has ended
    return not list(directory.iterdir()) and not any(str(directory).encode() in each for each in commands)


@pytest.mark.needs("fio")
def test_figure_shows_what_was_measured(tmp_path: Path) -> None:
    records = Records(measured(STORAGE.points(QUICK)[0], tmp_path))
    assert {(each.row.system, each.row.role) for each in records.all} == {(PLAIN, "write"), (PLAIN, "read")}
    assert list(tmp_path.iterdir()) == []
    (write, read, *others) = STORAGE.findings(records)
    assert "not measured" not in (write.shardpulse, read.shardpulse)
    assert all(finding.shardpulse.startswith(("not measured", "skipped: ")) for finding in others)
    plot = Plot()
    STORAGE.draw(plot, records)
    assert [axis.get_title() for axis in plot.axes] == ["sequential write", "sequential read"]
    assert " the device moves " in STORAGE.says(records)[0]


@pytest.mark.usefixtures("guest")
@pytest.mark.needs("fio", "qemu-system-x86_64", "busybox")
def test_guest_is_compared_with_its_device(tmp_path: Path) -> None:
    points = {point.name: point for point in STORAGE.points(QUICK)}
    pair = [points[f"storage-{system}-1024k"] for system in (PLAIN, GUEST)]
    records = Records([record for point in pair for record in measured(point, tmp_path)])
    assert nothing_is_left(tmp_path)
    assert all(records.of(GUEST, operation, "throughput").values[0] > 0 for operation in ("write", "read"))
    assert [finding.shardpulse.split()[:2] for finding in STORAGE.findings(records)[-2:]] == [["1024", "KiB"]] * 2
    assert " in a guest " in STORAGE.says(records)[0]


@pytest.mark.usefixtures("guest")
@pytest.mark.needs("fio", "qemu-system-x86_64", "busybox")
def test_failed_guest_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(str(tmp_path), 1 << 20, (1 << 10,), 0.1, 0, False)
    monkeypatch.setattr(linux_guest, "DISK", "/dev/vdz/none")
    with pytest.raises(UnavailableError, match=r"guest failed: .*exit status [1-9]"):
        run_in_guest(options)
    assert nothing_is_left(tmp_path)
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(1 << 20))
    with pytest.raises(UnavailableError, match="did not end within 1 s"):
        linux_guest.run(["sleep", "60"], disk, 1.0)
    disk.unlink()
    assert nothing_is_left(tmp_path)


def test_series_that_cannot_be_measured_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "lacking", lambda _directory: "no cgroup")
    monkeypatch.setattr(linux_guest.needs, "found", lambda _name: None)
    monkeypatch.setattr(linux_guest, "_kernels", list)
    assert {point.name.split("-")[1] for point in STORAGE.points(QUICK)} == {"device"}
    skipped = [finding for finding in STORAGE.findings(Records()) if finding.shardpulse.startswith("skipped: ")]
    assert [finding.what.partition(", ")[2] for finding in skipped] == [SLOWED, GUEST]
    assert skipped[0].shardpulse == "skipped: no cgroup"
    for package in ("qemu-system-x86", "busybox-static", "linux-image-cloud-amd64"):
        assert f"apt install {package}" in skipped[1].shardpulse
