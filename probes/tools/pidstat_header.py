"""Pidstat header lines: the meaning of each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from acquisition.model import codes
from probes.tools.tool_output import ascii_digits, has_digit

_KB = 1.0 / 1024  # a power of two: the division is exact

#: header name -> metric, divisor of the printed number
COLUMNS: dict[bytes, tuple[str, float]] = {
    b"%usr": ("cpu_user_ratio", 100.0),
    b"%user": ("cpu_user_ratio", 100.0),  # sysstat 9 and older
    b"%system": ("cpu_system_ratio", 100.0),
    b"%guest": ("cpu_guest_ratio", 100.0),
    b"%wait": ("cpu_wait_ratio", 100.0),  # from 11.5.5 on
    b"%CPU": ("cpu_ratio", 100.0),
    b"minflt/s": ("minor_faults_per_second", 1.0),
    b"majflt/s": ("major_faults_per_second", 1.0),
    b"VSZ": ("memory_virtual_bytes", _KB),
    b"RSS": ("memory_resident_bytes", _KB),
    b"%MEM": ("memory_ratio", 100.0),
    b"kB_rd/s": ("disk_read_bytes_per_second", _KB),
    b"kB_wr/s": ("disk_write_bytes_per_second", _KB),
    b"kB_ccwr/s": ("disk_write_cancelled_bytes_per_second", _KB),
    b"iodelay": ("io_delay_ticks", 1.0),  # from 10.1.6 on
    b"cswch/s": ("voluntary_switches_per_second", 1.0),
    b"nvcswch/s": ("involuntary_switches_per_second", 1.0),
}
IDENTITY = (b"UID", b"USER", b"TGID", b"TID", b"PID")
#: Columns in which -1.00 means that /proc/PID/io may not be read.
_UNREADABLE_IO = ("disk_read_bytes_per_second", "disk_write_bytes_per_second", "disk_write_cancelled_bytes_per_second")
_KNOWN = frozenset((*COLUMNS, *IDENTITY, b"CPU", b"Command"))
#: Columns of whole numbers, or of numbers with a unit (--human); other known ones have decimals.
_WHOLE = frozenset((b"CPU", b"VSZ", b"RSS", b"iodelay"))
MOST_TIME_WORDS = 6


class Header:
    """A header line: positions count from the first identity column, after the time."""

    __slots__ = (
        "average", "cells", "codes", "divisors", "ends_in_number", "figures", "in_order", "io", "line_layout",
        "metrics", "named", "names", "padded", "pick", "pid", "targets", "text", "tid", "time", "uid", "width",
    )  # fmt: skip

    def __init__(self, text: bytes, index: dict[str, int], cores_divided: int) -> None:
        """``text``: the line from its first identity column on; ``index``: metric name -> column of the set."""
        names = text.split()
        self.text = text
        self.names = names
        self.time = b""  #: of the previous sample, or ``# Time``
        self.average = False  #: over averages
        self.line_layout = False  #: of -h
        self.width = len(names)
        self.cells = _cells(text, names)  #: characters from the end of the previous column to the end of each column
        self.padded = any(cell > len(name) + 1 for cell, name in zip(self.cells[1:-1], names[1:-1], strict=True))
        self.ends_in_number = len(names) > 1 and names[-2] in _KNOWN  #: before Command
        self.named = b"USER" in names  #: a user name may contain spaces
        self.uid = names.index(b"UID") if b"UID" in names else -1
        self.tid = names.index(b"TID") if b"TID" in names else -1
        self.pid = names.index(b"TGID") if self.tid >= 0 else names.index(b"PID")
        #: position, and whether it has decimals, of the known columns with figures
        self.figures = [(at, name not in _WHOLE) for at, name in enumerate(names) if name in COLUMNS or name == b"CPU"]
        found = [(at, *COLUMNS[name]) for at, name in enumerate(names) if name in COLUMNS]
        found = [(at, metric, divisor) for at, metric, divisor in found if metric in index]
        self.targets = [index[metric] for _, metric, _ in found]
        self.divisors = [
            divisor / cores_divided if cores_divided and metric == "cpu_ratio" else divisor
            for _, metric, divisor in found
        ]
        self.pick = _picker([at for at, _, _ in found])
        self.metrics = frozenset(self.targets)
        self.in_order = self.targets == list(range(len(self.targets)))
        self.io = frozenset(index[metric] for metric in _UNREADABLE_IO if metric in index)
        row_codes = bytearray([codes.MISSING]) * len(index)
        for target in self.targets:
            row_codes[target] = codes.VALID
        self.codes = bytes(row_codes)

    def seen_at(self, time: bytes) -> None:
        """The same header again, above the rows after ``time``."""
        self.time = time
        self.line_layout = time.startswith(b"#")
        self.average = not self.line_layout and not has_digit(time)

    def unknown_names(self) -> list[str]:
        """Unknown column names, for a message."""
        return [name.decode("utf-8", "replace")[:40] for name in self.names if name not in _KNOWN]


def identity_at(tokens: Sequence[bytes]) -> int:
    """Start of the identity columns of a header, after the time; -1 if the tokens are not a header."""
    at = next((i for i, token in enumerate(tokens[: MOST_TIME_WORDS + 2]) if token in IDENTITY), -1)
    names = tokens[at:]
    if at < 1 or set(names) <= {*IDENTITY, b"Command"}:
        return -1
    plausible = names[-1] == b"Command" or any(name in COLUMNS for name in names)
    return at if plausible and not any(map(_is_figure, names)) else -1


def _is_figure(name: bytes) -> bool:
    return ascii_digits(name).replace(b".", b"").isdigit()


def names_process(names: Sequence[bytes]) -> bool:
    """Whether the identity columns of a header include the process: PID, with -t TGID beside TID."""
    return (b"TGID" if b"TID" in names else b"PID") in names


def without_pid(tokens: Sequence[bytes]) -> bool:
    """Whether the tokens are a header without the process id: at least two known names, no number."""
    known = sum(token in COLUMNS for token in tokens) + (bool(tokens) and tokens[-1] == b"Command")
    return known >= 2 and not any(map(_is_figure, tokens[2:]))


def _cells(text: bytes, names: Sequence[bytes]) -> list[int]:
    cells, end = [], 0
    for name in names:
        start = text.index(name, end)
        cells.append(start + len(name) - end)
        end = start + len(name)
    return cells


def _picker(positions: list[int]) -> Callable[[list[bytes]], tuple[bytes, ...]]:
    if not positions:
        return lambda _: ()
    if len(positions) == 1:
        (only,) = positions
        return lambda parts: (parts[only],)
    return itemgetter(*positions)
