"""Line oracle: a second, simple reading of lines, to check VALID values.

Independent of ``probes.sources``: own header rule, own number syntax, own table of columns. It does not define what
must be read; it only checks that a VALID value is that of a line in its column, is within its metric's range, and does
not contradict its row.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import decimal

from acquisition.model.codes import MISSING, VALID
from acquisition.model.metric import Metric
from probes.sampling.reading import Reading

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_COLOUR = re.compile(rb"\x1b\[(?:(?:(?!\x1b\[)[^m]){0,12}m)?")
_DATE = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LONGEST_LINE = 65536
_CLOSE = 1e-9
_TOLERANCE = 0.05 + 1e-6  #: default of the check for contradictions

#: vmstat: column -> metric, factor with -S K
_VMSTAT = {
    b"r": ("tasks_runnable", 1.0), b"b": ("tasks_blocked", 1.0), b"swpd": ("swap_used_bytes", 1024.0),
    b"free": ("memory_free_bytes", 1024.0), b"buff": ("memory_buffers_bytes", 1024.0),
    b"cache": ("memory_cache_bytes", 1024.0), b"si": ("swap_in_bytes_per_second", 1024.0),
    b"so": ("swap_out_bytes_per_second", 1024.0), b"bi": ("block_in_bytes_per_second", 1024.0),
    b"bo": ("block_out_bytes_per_second", 1024.0), b"in": ("interrupts_per_second", 1.0),
    b"cs": ("context_switches_per_second", 1.0), b"us": ("cpu_user_ratio", 0.01), b"sy": ("cpu_system_ratio", 0.01),
    b"id": ("cpu_idle_ratio", 0.01), b"wa": ("cpu_iowait_ratio", 0.01), b"st": ("cpu_steal_ratio", 0.01),
    b"gu": ("cpu_guest_ratio", 0.01),
}  # fmt: skip
#: Widths of a header without known names: with or without gu, with or without a zone.
_BY_POSITION = (17, 18, 19)
_SHARES = tuple(f"cpu_{name}_ratio" for name in ("user", "system", "idle", "iowait", "steal"))
_GUEST = "cpu_guest_ratio"

#: pidstat: column -> metric, factor of the bare number
_PIDSTAT = {
    b"%usr": ("cpu_user_ratio", 0.01), b"%user": ("cpu_user_ratio", 0.01), b"%system": ("cpu_system_ratio", 0.01),
    b"%guest": ("cpu_guest_ratio", 0.01), b"%wait": ("cpu_wait_ratio", 0.01), b"%CPU": ("cpu_ratio", 0.01),
    b"minflt/s": ("minor_faults_per_second", 1.0), b"majflt/s": ("major_faults_per_second", 1.0),
    b"VSZ": ("memory_virtual_bytes", 1024.0), b"RSS": ("memory_resident_bytes", 1024.0),
    b"%MEM": ("memory_ratio", 0.01), b"kB_rd/s": ("disk_read_bytes_per_second", 1024.0),
    b"kB_wr/s": ("disk_write_bytes_per_second", 1024.0),
    b"kB_ccwr/s": ("disk_write_cancelled_bytes_per_second", 1024.0), b"iodelay": ("io_delay_ticks", 1.0),
    b"cswch/s": ("voluntary_switches_per_second", 1.0), b"nvcswch/s": ("involuntary_switches_per_second", 1.0),
}  # fmt: skip
_UNITS = {b"B": 1.0, b"k": 1024.0, b"M": 1024.0**2, b"G": 1024.0**3, b"T": 1024.0**4, b"P": 1024.0**5}
_IDENTITY = (b"UID", b"USER", b"TGID", b"TID", b"PID")
_TIME_TOKENS, _USER_TOKENS = 6, 8
_HEADERS = 6  #: a line like a header may be part of a command


class Unsound(Exception):
    """A wrong VALID value: the message has it and the line's own value."""


class VmstatOracle:
    """Judges readings of vmstat. ``lines`` are all lines of the session, as given to the parser."""

    def __init__(self, lines: Sequence[bytes], metrics: Sequence[Metric]) -> None:
        self._lines = lines
        self._metrics = metrics
        self._read = 0
        self._headers: list[list[bytes]] = []

    def judge(self, reading: Reading, fed: int) -> None:
        """Raises Unsound; ``fed`` is the number of lines given to the parser."""
        del fed
        number = reading.lines[0]
        while self._read < number - 1:
            self._look(self._lines[self._read])
            self._read += 1
        claims = self._claims(self._lines[number - 1])
        check_range(reading, self._metrics, 0, reading.cores)
        for column, metric in enumerate(self._metrics):
            if reading.codes[column] == VALID:
                said, value = claims[metric.name], reading.values[column]
                if not any(_close(claim, value) for claim in said):
                    raise Unsound(f"line {number}: {metric.name} is {value!r}, the line says {said!r}")
        self._contradictions(reading)

    def _look(self, line: bytes) -> None:
        tokens = _plain(line).split()
        if len(line) > _LONGEST_LINE or b"\0" in line or not tokens or tokens[0].startswith(b"#"):
            return
        if any(map(_has_digit, tokens[:-1])):
            return
        known = sum(token in _VMSTAT for token in tokens)
        if known >= 3 and 2 * known >= len(tokens):
            self._headers = [tokens]
        elif len(tokens) in _BY_POSITION:  # without another header in force
            self._headers.append(tokens if known else [*list(_VMSTAT)[:17], *tokens[17:]])

    def _claims(self, line: bytes) -> dict[str, list[float]]:
        found: dict[str, list[float]] = defaultdict(list)
        tokens = _plain(line).split()
        for words in (0, 2, 3):
            if words and not (len(tokens) > words and _DATE.fullmatch(tokens[-words])):
                continue
            row = tokens[: len(tokens) - words]
            for header in self._headers:
                if words and len(row) == len(header) - 1:
                    header = header[:-1]  # noqa: PLW2901 - the last is the zone
                if len(row) == len(header):
                    self._claim(header, row, found)
        return found

    def _claim(self, header: list[bytes], row: list[bytes], found: dict[str, list[float]]) -> None:
        for name, token in zip(header, row, strict=True):
            known = _VMSTAT.get(name)
            if known and header.count(name) == 1 and _NUMBER.fullmatch(token):
                found[known[0]].append(float(token.replace(b",", b".")) * known[1])

    def _contradictions(self, reading: Reading) -> None:
        valid = _valid(reading, self._metrics, 0)
        if all(name in valid for name in _SHARES):
            total = sum(valid[name] for name in (*_SHARES, _GUEST) if name in valid)
            codes = {metric.name: code for metric, code in zip(self._metrics, reading.codes, strict=True)}
            known = codes[_GUEST] in (VALID, MISSING)  # unreadable guest time may be the missing part
            if total > 1.0 + _TOLERANCE or (known and total < 1.0 - _TOLERANCE):
                raise Unsound(f"line {reading.lines[0]}: shares of CPU time add up to {total}, all VALID")


class _Header(NamedTuple):
    names: list[bytes]
    pid: int
    uid: int
    tid: int


class PidstatOracle:
    """Judges readings of pidstat: a value must be that of some line of the tick for its pid."""

    def __init__(self, lines: Sequence[bytes], metrics: Sequence[Metric]) -> None:
        self._lines = lines
        self._metrics = metrics
        self._read = 0
        self._headers: list[_Header] = []
        self._certain: list[_Header] = []  #: the newest after a blank line: in force whatever follows
        self._blank = True
        self._cores = 0  #: of the previous reading: removed CPUs may have been used
        self._claims: dict[tuple[int, str], list[tuple[int, float]]] = defaultdict(list)

    def judge(self, reading: Reading, fed: int) -> None:
        """Raises Unsound; ``fed`` is the number of lines given to the parser."""
        while self._read < min(fed, len(self._lines)):
            self._read += 1
            self._look(self._read, self._lines[self._read - 1])
        width = len(self._metrics)
        for row, entity in enumerate(reading.entities):
            pid, first = int(entity.labels["pid"]), reading.lines[row]
            check_range(reading, self._metrics, row, max(reading.cores, self._cores) if reading.cores else 0)
            for column, metric in enumerate(self._metrics):
                at = row * width + column
                if reading.codes[at] == VALID:
                    self._supported(pid, metric.name, reading.values[at], first)
            self._contradictions(reading, row)
        self._cores = reading.cores
        oldest = min(reading.lines, default=0)
        if len(self._claims) > 256:  # older ones belong to past ticks
            kept = {key: [one for one in found if one[0] > oldest] for key, found in self._claims.items()}
            self._claims = defaultdict(list, {key: found for key, found in kept.items() if found})

    def _supported(self, pid: int, name: str, value: float, first: int) -> None:
        said = [claim for line, claim in self._claims[(pid, name)] if line >= first]
        if not any(_close(claim, value) for claim in said):
            raise Unsound(f"line {first} and after: {name} of {pid} is {value!r}, the lines say {said[:5]!r}")

    def _look(self, number: int, line: bytes) -> None:
        if len(line) > _LONGEST_LINE or b"\0" in line:
            return
        line = _plain(line)
        header = _header_of(line.split())
        if header is not None:
            self._headers = [*(each for each in self._headers if each != header), header][-_HEADERS:]
            self._certain = [header] if self._blank else self._certain
        self._blank = not line.strip()
        for each in [*self._headers, *(each for each in self._certain if each not in self._headers)]:
            most = _TIME_TOKENS + (_USER_TOKENS if b"USER" in each.names else 0)
            for offset in range(1, most + 1):
                self._claim(number, line, offset, each)

    def _claim(self, number: int, line: bytes, offset: int, header: _Header) -> None:
        parts = line.split(None, offset + len(header.names) - 1)
        if len(parts) == offset + len(header.names) - 1:
            parts.append(b"")  # no command
        if len(parts) != offset + len(header.names):
            return
        row = parts[offset:]
        if not row[header.pid].isdigit() or len(row[header.pid]) > 11:
            return
        if (header.uid >= 0 and not row[header.uid].removeprefix(b"-").isdigit()) or (
            header.tid >= 0 and row[header.tid] != b"-"
        ):
            return
        for name, token in zip(header.names, row, strict=True):
            if name in _PIDSTAT:
                value = _pidstat_number(token.rstrip(), _PIDSTAT[name][1])
                if value is not None:
                    said = self._claims[(int(row[header.pid]), _PIDSTAT[name][0])]
                    if (number, value) not in said[-_HEADERS:]:
                        said.append((number, value))

    def _contradictions(self, reading: Reading, row: int) -> None:
        valid = _valid(reading, self._metrics, row)
        parts = [valid.get(f"cpu_{name}_ratio") for name in ("user", "system", "guest")]
        whole = valid.get("cpu_ratio")
        if whole is None or any(part is None for part in parts):
            return
        off = sum(part for part in parts if part is not None) - whole
        if abs(off) > _TOLERANCE * max(1.0, whole):
            raise Unsound(f"line {reading.lines[row]}: CPU time in all is {whole}, its parts differ by {off}")


def check_range(reading: Reading, metrics: Sequence[Metric], row: int, cpus: int) -> None:
    """Raises Unsound if a VALID value of a row is out of its metric's range, or of its machine's (``cpus``, 0:
    unknown)."""
    seconds = reading.dt if reading.dt > 0 else 1.0
    cores = cpus * 1.05 + 0.02 / seconds + _CLOSE if cpus else float("inf")
    for name, value, metric in _valid_cells(reading, metrics, row):
        waits = metric.name == "cpu_wait_ratio"  # charged at the end of the wait: not bounded by cores
        high = min(metric.high, cores) if metric.unit == "cores" and not waits else metric.high
        if not metric.low <= value <= high * (1.0 + _CLOSE):
            raise Unsound(f"line {reading.lines[row]}: {name} is {value!r}, VALID, outside [{metric.low}, {high}]")


def _valid_cells(reading: Reading, metrics: Sequence[Metric], row: int) -> list[tuple[str, float, Metric]]:
    width = len(metrics)
    cells = zip(
        metrics, reading.values[row * width : (row + 1) * width], reading.codes[row * width : (row + 1) * width],
        strict=True,
    )  # fmt: skip
    return [(metric.name, value, metric) for metric, value, code in cells if code == VALID]


def _valid(reading: Reading, metrics: Sequence[Metric], row: int) -> dict[str, float]:
    return {name: value for name, value, _ in _valid_cells(reading, metrics, row)}


def _header_of(tokens: list[bytes]) -> _Header | None:
    at = next((i for i, token in enumerate(tokens[: _TIME_TOKENS + 2]) if token in _IDENTITY), -1)
    names = tokens[at:]
    if at < 0 or any(name.replace(b".", b"").isdigit() for name in names):
        return None
    if names[-1] != b"Command" and not any(name in _PIDSTAT for name in names):
        return None
    tid = names.index(b"TID") if b"TID" in names else -1
    key = b"TGID" if tid >= 0 else b"PID"
    if key not in names:
        return None
    return _Header(names, names.index(key), names.index(b"UID") if b"UID" in names else -1, tid)


def _pidstat_number(token: bytes, factor: float) -> float | None:
    unit = _UNITS.get(token[-1:])
    bare = token[:-1] if unit is not None else token
    bare = bare.removesuffix(b"%")
    if not _NUMBER.fullmatch(bare):
        return None
    return float(bare.replace(b",", b".")) * (factor if unit is None else unit)


def _plain(line: bytes) -> bytes:
    """The line without colours, with ASCII digits."""
    line = _COLOUR.sub(b"", line) if b"\x1b" in line else line
    if line.isascii():
        return line
    text = line.decode("utf-8", "replace").replace("\u066b", ".")
    return "".join(str(decimal(each, each)) for each in text).encode()


def _has_digit(token: bytes) -> bool:
    return any(each.isnumeric() for each in token.decode("utf-8", "replace"))


def _close(claim: float, value: float) -> bool:
    return abs(claim - value) <= _CLOSE * max(abs(claim), abs(value))
