"""The outbox: what it holds, what it drops, what a later process finds."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from acquisition.errors import CannotCreateError
from acquisition.outbox.frames.ring import AREA, RECORD_SIZE, space
from acquisition.outbox.frames.store import Outbox
from acquisition.wire import frame
from acquisition.wire.frame import Frame

HOST = 5


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def offer(outbox: Outbox, resource_set: int = 1, cells: int = 4) -> int:
    """What the writer does, with a frame of one entity and ``cells`` metrics."""
    window = outbox.window(resource_set)
    at = outbox.make_room(frame.HEADER_SIZE + 8 + 4 * cells)
    sequence = window.last + 1
    values = bytes([sequence % 251]) * (4 * cells)
    data = frame.encode(
        Frame(1, 1, HOST, resource_set, 1, cells, 1.0, window.epoch, sequence, window.floor, window.made, 1, 1.0, 1.0,
              bytes(8), values)
    )  # fmt: skip
    outbox.append(window, cells, data, at)
    return sequence


def held(outbox: Outbox) -> dict[int, list[int]]:
    """Sequences by resource set, after checking that every frame can be read and is itself."""
    found: dict[int, list[int]] = {}
    for index in range(outbox.first, outbox.end):
        entry = outbox.entry(index)
        if entry.window is None:
            continue
        data = frame.decode(outbox.read(index))
        assert (data.sequence, data.resource_set) == (entry.sequence, entry.window.resource_set)
        assert data.made + data.samples == entry.made
        assert data.values[:1] == bytes([entry.sequence % 251])
        found.setdefault(data.resource_set, []).append(entry.sequence)
    for resource_set, window in outbox.windows.items():
        sequences = found.get(resource_set, [])
        assert sequences == list(range(window.floor, window.last + 1))
    return found


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ring")


@pytest.fixture
def make() -> Iterator[Callable[..., Outbox]]:
    made: list[Outbox] = []

    def build(path: str | None, *arguments: object) -> Outbox:
        made.append(Outbox(path, *arguments))  # type: ignore[arg-type]
        made[-1].bind(HOST)
        return made[-1]

    yield build
    for outbox in made:
        outbox.close()


Make = Callable[..., Outbox]


@pytest.mark.parametrize("in_file", [True, False])
def test_oldest_is_dropped_first_and_floors_follow(make: Make, path: str, in_file: bool) -> None:
    outbox = make(path if in_file else None, 4096)
    for number in range(300):
        offer(outbox, 1 + number % 3, 1 + number % 40)
        held(outbox)
        assert outbox.bytes <= 4096
    assert sum(len(sequences) for sequences in held(outbox).values()) >= 10
    assert outbox.windows[1].counts.dropped_frames == outbox.windows[1].floor - 1


def test_too_old_frames_are_dropped(make: Make) -> None:
    clock = Clock()
    outbox = make(None, 1 << 20, 10.0, clock)
    for _ in range(30):
        offer(outbox)
        clock.now += 1.0
    assert held(outbox)[1] == list(range(20, 31))


def test_what_was_applied_is_not_counted_as_dropped(make: Make) -> None:
    outbox = make(None, 2048)
    for _ in range(50):
        outbox.window(1).confirmed = offer(outbox)
    assert outbox.windows[1].floor > 30
    assert outbox.windows[1].counts.dropped_frames == 0


def test_earlier_process_frames_are_not_dropped_before_fate_known(make: Make, path: str) -> None:
    clock = Clock()
    outbox = make(path, 1 << 20, 10.0, clock)
    for _ in range(5):
        offer(outbox)
    outbox.close()
    clock.now += 60.0
    again = make(path, 1 << 20, 10.0, clock)
    for _ in range(3):
        offer(again)
    assert held(again)[1] == [6, 7, 8]
    assert again.windows[1].counts.dropped_frames == 0
    clock.now += 60.0
    offer(again)
    assert again.windows[1].counts.dropped_frames == 3


def test_file_stays_small_while_time_is_the_bound(make: Make, path: str) -> None:
    clock = Clock()
    outbox = make(path, 16 << 20, 10.0, clock)
    for _ in range(5000):
        offer(outbox, cells=100)
        clock.now += 1.0
    assert os.stat(path).st_size < 200_000
    outbox.close()
    assert held(make(path, 16 << 20, 1e9, clock))[1][-11:] == list(range(4990, 5001))


def test_frame_larger_than_the_ring_is_counted_and_the_rest_goes_on(make: Make, path: str) -> None:
    outbox = make(path, 4096)
    for _ in range(3):
        offer(outbox)
    assert offer(outbox, cells=2000) == 4
    assert outbox.faults == {"ring_large": 1}
    assert outbox.windows[1].floor == 5
    offer(outbox)
    assert held(outbox) == {1: [5]}
    assert outbox.windows[1].made == 4 * 4 + 2000


# ------------------------------------------------------------------ a later process


def test_later_process_goes_on_with_numbers_and_frames(make: Make, path: str) -> None:
    first = make(path, 1 << 16)
    for number in range(700):
        offer(first, 1 + number % 2, 3)
    before = held(first)
    first.close()
    second = make(path, 1 << 16)
    assert (second.found, second.faults) == ("recovered", {})
    assert held(second) == before
    for resource_set, one in first.windows.items():
        other = second.windows[resource_set]
        assert (one.epoch, one.last, one.made, one.floor) == (other.epoch, other.last, other.made, other.floor)
    assert offer(second) == first.windows[1].last + 1
    held(second)


def test_numbers_of_a_set_outlive_its_last_frame(make: Make, path: str) -> None:
    first = make(path, 4096)
    for _ in range(5):
        offer(first, 9)
    for _ in range(200):
        offer(first, 1)
    assert 9 not in held(first)
    epoch = first.windows[9].epoch
    first.close()
    second = make(path, 4096)
    assert (second.windows[9].epoch, second.windows[9].last, second.windows[9].made) == (epoch, 5, 20)
    assert second.windows[9].floor == 6
    assert offer(second, 9) == 6


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 120)), min_size=1, max_size=120),
    torn=st.integers(0, 700),
    laps=st.booleans(),
)
def test_write_that_was_cut_off_costs_that_frame_only(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int]], torn: int, laps: bool
) -> None:
    """kill -9 in the middle of a pwrite: up to any byte the newest record is there, behind it is what was."""
    path = str(tmp_path_factory.mktemp("ring") / "ring")
    outbox = Outbox(path, 4096 if laps else 1 << 16)
    outbox.bind(HOST)
    for resource_set, cells in sizes[:-1]:
        offer(outbox, resource_set, cells)
    old = Path(path).read_bytes()
    offer(outbox, *sizes[-1])
    newest = outbox.entry(outbox.end - 1)
    before = held(outbox)
    outbox.close()
    assert newest.window is not None
    cut = AREA + newest.offset + min(torn, RECORD_SIZE + newest.size - 1)
    new = Path(path).read_bytes()
    assume(new[cut:] != old[cut : len(new)])  # what was there is what would have come
    Path(path).write_bytes(new[:cut] + old[cut:])
    again = Outbox(path, 4096 if laps else 1 << 16)
    again.bind(HOST)
    assert again.found == "recovered"
    before[newest.window.resource_set].pop()
    found = held(again)
    for resource_set, sequences in before.items():  # a frame that was in the way may still be there
        assert found.get(resource_set, [])[-len(sequences) :] == sequences or not sequences
    for window in again.windows.values():
        lost = window.resource_set == newest.window.resource_set
        assert window.last == outbox.windows[window.resource_set].last - lost
    offer(again, 1, 10)
    held(again)
    again.close()


def damage(path: str, outbox: Outbox, *places: int) -> None:
    with open(path, "r+b") as file:
        for place in places:
            file.seek(AREA + outbox.entry(outbox.first + place).offset + RECORD_SIZE + 30)
            file.write(b"\xff\xff")


def test_damage_in_the_middle_costs_what_is_before_it(make: Make, path: str) -> None:
    first = make(path, 1 << 16)
    for _ in range(20):
        offer(first)
    epoch = first.windows[1].epoch
    first.close()
    damage(path, first, 5)
    second = make(path, 1 << 16)
    assert (second.found, second.faults) == ("recovered", {"ring_damaged": 1})
    assert held(second) == {1: list(range(7, 21))}
    assert (offer(second), second.windows[1].epoch) == (21, epoch)


def test_damage_at_the_end_starts_new_epochs(make: Make, path: str) -> None:
    """More than the newest frame cannot be read: their numbers must not be given again."""
    first = make(path, 1 << 16)
    for _ in range(20):
        offer(first)
    epoch = first.windows[1].epoch
    first.close()
    damage(path, first, 18, 19)
    second = make(path, 1 << 16)
    assert (second.found, second.faults, second.windows) == ("damaged", {"ring_damaged": 1}, {})
    assert offer(second) == 1
    assert second.windows[1].epoch > epoch


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300), at=st.integers(0, 9000))
def test_whatever_stands_in_the_file_is_no_reason_to_crash(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int
) -> None:
    path = str(tmp_path_factory.mktemp("ring") / "ring")
    outbox = Outbox(path, 8192)
    outbox.bind(HOST)
    for number in range(30):
        offer(outbox, 1 + number % 2, 20)
    outbox.close()
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)
    again = Outbox(path, 8192)
    again.bind(HOST)
    assert again.found in ("recovered", "damaged", "version", "capacity", "host")
    held(again)
    offer(again)
    held(again)
    again.close()


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 120)), min_size=1, max_size=60),
    cut=st.floats(0.0, 1.0),
    fill=st.booleans(),
)
def test_truncated_ring_file_yields_only_intact_frames(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int]], cut: float, fill: bool
) -> None:
    """Cut off, and filled with zeros up to its old size or not: what is held afterwards is what was written."""
    path = str(tmp_path_factory.mktemp("ring") / "ring")
    outbox = Outbox(path, 8192)
    outbox.bind(HOST)
    for resource_set, cells in sizes:
        offer(outbox, resource_set, cells)
    written = {outbox.read(index) for index in range(outbox.first, outbox.end)}
    epochs = {window.epoch for window in outbox.windows.values()}
    outbox.close()
    size = os.stat(path).st_size
    os.truncate(path, int(size * cut))
    if fill:
        os.truncate(path, size)
    again = Outbox(path, 8192)
    again.bind(HOST)
    assert again.found in ("recovered", "damaged", "created")
    found = [again.read(index) for index in range(again.first, again.end) if again.entry(index).window is not None]
    assert written.issuperset(found)
    held(again)
    for resource_set, window in again.windows.items():
        assert window.epoch in epochs
        assert window.last <= outbox.windows[resource_set].last
    offer(again, 1, 10)
    held(again)
    again.close()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: b"", "created"),
        (lambda data: data[:100], "damaged"),
        (lambda data: b"x" * len(data), "damaged"),
        (lambda data: data[:8] + b"\x63" + data[9:], "version"),
        (lambda data: data[:20] + b"\x63" + data[21:], "damaged"),
    ],
)
def test_ring_that_is_none_of_ours_is_made_anew(
    make: Make, path: str, change: Callable[[bytes], bytes], found: str
) -> None:
    outbox = make(path, 8192)
    offer(outbox)
    outbox.close()
    Path(path).write_bytes(change(Path(path).read_bytes()))
    again = make(path, 8192)
    assert (again.found, held(again)) == (found, {})
    assert again.faults == ({} if found == "created" else {f"ring_{found}": 1})


def test_ring_of_another_size_or_host_is_made_anew(make: Make, path: str) -> None:
    outbox = make(path, 8192)
    offer(outbox)
    outbox.close()
    again = make(path, 16384)
    assert (again.found, held(again)) == ("capacity", {})
    offer(again)
    again.close()
    other = Outbox(path, 16384)
    other.bind(HOST + 1)
    assert (other.found, other.windows, other.faults) == ("host", {}, {"ring_host": 1})
    other.close()


# ------------------------------------------------------------------ files that cannot be had


def test_ring_in_use_by_another_probe_is_refused(make: Make, path: str) -> None:
    make(path, 8192)
    with pytest.raises(CannotCreateError, match="in use by another probe"):
        Outbox(path, 8192)


def test_missing_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(CannotCreateError, match="No such file or directory"):
        Outbox(str(tmp_path / "missing" / "ring"), 8192)


def in_memory(outbox: Outbox, denied: str) -> None:
    """The outbox keeps frames without a file, and says why."""
    assert (outbox.path, outbox.found, outbox.faults) == (None, "memory", {"ring_denied": 1})
    assert denied in outbox.denied
    for _ in range(3):
        offer(outbox)
    assert held(outbox)[1] == [1, 2, 3]


def test_links_and_other_files_are_not_touched_and_done_without(make: Make, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(target)
    in_memory(make(str(tmp_path / "link"), 8192), "cannot open")
    os.mkfifo(tmp_path / "fifo")
    in_memory(make(str(tmp_path / "fifo"), 8192), "not a regular file")
    (tmp_path / "directory").mkdir()
    in_memory(make(str(tmp_path / "directory"), 8192), "cannot open")
    assert target.read_bytes() == b"precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_ring_that_another_user_squats_is_done_without(make: Make, path: str) -> None:
    Path(path).write_bytes(b"squatted")
    os.chown(path, 12345, 12345)
    in_memory(make(path, 8192), "not a regular file of this user")
    assert Path(path).read_bytes() == b"squatted"


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond ``size`` bytes: nothing else may write meanwhile, such
    as pytest to its own output."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_disk_that_is_full_makes_the_ring_smaller(make: Make, path: str) -> None:
    outbox = make(path, 1 << 16)
    with file_limit(AREA + 10_000):
        for _ in range(300):
            offer(outbox, cells=50)
            held(outbox)
        sequences = held(outbox)[1]
        outbox.close()
    assert len(sequences) >= 20
    assert outbox.faults["ring_write"] >= 1
    again = make(path, 1 << 16)
    assert held(again)[1][-1] == 300


def test_disk_without_any_room_leaves_memory(make: Make, path: str) -> None:
    outbox = make(path, 16 << 20)
    with file_limit(AREA):
        for _ in range(1000):
            offer(outbox, cells=1000)
        sequences = held(outbox)[1]
        outbox.close()
    assert 200 <= len(sequences) <= (1 << 20) // 4000
    assert outbox.windows[1].made == 1_000_000
    again = make(path, 16 << 20)  # the frames are gone, their numbers are not
    assert (again.windows[1].last, again.windows[1].floor, again.windows[1].made) == (1000, 1001, 1_000_000)


def test_disk_without_room_for_the_header_leaves_memory(make: Make, path: str) -> None:
    with file_limit(100):
        in_memory(make(path, 8192), "cannot write")


def test_full_tmpfs(make: Make, tmp_path: Path) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mount.stderr.strip()}")
    try:
        outbox = make(str(tmp_path / "ring"), 1 << 20)
        for _ in range(500):
            offer(outbox, cells=200)
            held(outbox)
        assert 40 <= len(held(outbox)[1]) <= 66
        assert outbox.faults["ring_write"] >= 1
        outbox.close()
        assert held(make(str(tmp_path / "ring"), 1 << 20))[1][-1] == 500
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_large_ring_is_taken_up_frame_by_frame(make: Make, path: str) -> None:
    outbox = make(path, 1 << 23)
    for _ in range(1000):
        offer(outbox, cells=2000)
    before = held(outbox)
    outbox.close()
    tracemalloc.start()
    again = make(path, 1 << 23)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held(again) == before
    assert peak < 1 << 21


def test_deleted_file_is_written_again(make: Make, path: str) -> None:
    outbox = make(path, 8192)
    for _ in range(10):
        offer(outbox)
    outbox.check()
    assert outbox.faults == {}
    os.unlink(path)
    outbox.check()
    assert outbox.faults == {"ring_deleted": 1}
    offer(outbox)
    outbox.close()
    assert held(make(path, 8192))[1] == list(range(1, 12))


def test_space_is_aligned() -> None:
    assert space(1) % 8 == 0
    assert space(1) >= RECORD_SIZE + 1


def test_probe_closure_stays_lean() -> None:
    """Each of these modules costs every probe of the data center about a megabyte."""
    program = (
        "import sys; import acquisition.outbox.writer; "
        "print([m for m in ('dataclasses','argparse','logging','inspect','subprocess','hashlib','tomllib','msgspec',"
        "'numpy','redis','importlib.metadata','random','threading','ssl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
