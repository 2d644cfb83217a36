import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.model import codes
from probes.metrics import HOST, VMSTAT_METRICS
from probes.tools.vmstat import UNITS, VmstatParser, VmstatRow
from tests.support import FIXTURES

CAPTURES = FIXTURES / "vmstat"
SET = HOST.select(VMSTAT_METRICS)
COLUMNS = "r b swpd free buff cache si so bi bo in cs us sy id wa st gu"
NAMES = COLUMNS.split()


def parse(data: bytes, **options: object) -> tuple[VmstatParser, list[VmstatRow]]:
    parser = VmstatParser(SET, **options)  # type: ignore[arg-type]
    rows = [row for line in data.removesuffix(b"\n").split(b"\n") if (row := parser.feed(line)) is not None]
    return parser, rows


def parse_file(name: str, **options: object) -> tuple[VmstatParser, list[VmstatRow]]:
    return parse((CAPTURES / name).read_bytes(), **options)


def metrics(row: VmstatRow) -> dict[str, float]:
    return {
        name: value
        for name, value, code in zip(VMSTAT_METRICS, row.values, row.codes, strict=True)
        if code == codes.VALID
    }


def invalid(row: VmstatRow) -> dict[str, str]:
    return {
        name: codes.name_of(code) for name, code in zip(VMSTAT_METRICS, row.codes, strict=True) if code != codes.VALID
    }


def rejected(parser: VmstatParser) -> dict[str, list[list[int]]]:
    return parser.rejected.lines


@pytest.mark.parametrize(
    ("name", "options", "rows", "missing"),
    [
        ("procps-2.0.txt", {}, 1, {"cpu_guest_ratio", "cpu_iowait_ratio", "cpu_steal_ratio"}),
        ("procps-3.2.8-timestamp-zone-in-rows.txt", {}, 2, {"cpu_guest_ratio"}),
        ("procps-3.2.8-oswatcher.txt", {}, 4, {"cpu_guest_ratio"}),
        ("procps-3.2.8-appended-runs.txt", {}, 4, {"cpu_guest_ratio"}),
        ("procps-3.3.txt", {}, 1, {"cpu_guest_ratio"}),
        ("procps-3.3-wide.txt", {}, 2, {"cpu_guest_ratio"}),
        ("procps-4.0.2.txt", {}, 4, {"cpu_guest_ratio"}),
        ("procps-4.0.2-wide-timestamp.txt", {}, 4, set()),
        ("procps-4.0.2-unit-M.txt", {"unit": "M"}, 3, {"cpu_guest_ratio"}),
        ("procps-4.0.2-unit-k-timestamp.txt", {"unit": "k"}, 3, {"cpu_guest_ratio"}),
        ("procps-4.0.2-no-first.txt", {"first_is_average": False}, 3, set()),
        ("procps-4.0.2-repeated-header.txt", {}, 23, {"cpu_guest_ratio"}),
        ("procps-4.0.2-active.txt", {}, 2, {"memory_buffers_bytes", "memory_cache_bytes", "cpu_guest_ratio"}),
        ("procps-4.0.2-locale-de_DE.txt", {}, 2, {"memory_free_bytes", "memory_cache_bytes"}),
        ("procps-4.0.6.txt", {}, 1, set()),
    ],
)
def test_what_real_hosts_print(name: str, options: dict[str, object], rows: int, missing: set[str]) -> None:
    parser, found = parse_file(name, **options)
    assert parser.rejected.count == 0
    assert parser.parsed == len(found) == rows
    assert parser.parsed + parser.skipped == parser.lines
    for row in found:
        assert invalid(row) == dict.fromkeys(missing, "MISSING")
        assert 0.97 <= sum(value for name, value in metrics(row).items() if name.startswith("cpu_")) <= 1.03


def test_values_are_in_base_units() -> None:
    _, (row,) = parse_file("procps-4.0.6.txt")
    assert metrics(row) == {
        "tasks_runnable": 120.0,
        "tasks_blocked": 11.0,
        "swap_used_bytes": 1048576 * 1024,
        "memory_free_bytes": 1056964608 * 1024,
        "memory_buffers_bytes": 204800 * 1024,
        "memory_cache_bytes": 167772160 * 1024,
        "swap_in_bytes_per_second": 1234 * 1024,
        "swap_out_bytes_per_second": 5678 * 1024,
        "block_in_bytes_per_second": 1048576 * 1024,
        "block_out_bytes_per_second": 2097152 * 1024,
        "interrupts_per_second": 123456,
        "context_switches_per_second": 1234567,
        "cpu_user_ratio": 0.2,
        "cpu_system_ratio": 0.1,
        "cpu_idle_ratio": 0.05,
        "cpu_iowait_ratio": 0.04,
        "cpu_steal_ratio": 0.01,
        "cpu_guest_ratio": 0.6,
    }


def test_blocks_are_1024_bytes_whatever_the_unit() -> None:
    line = b"1 0 7 8 9 10 11 12 13 14 15 16 1 2 97 0 0 0\n"
    for unit, size in UNITS.items():
        _, (row,) = parse(" ".join(NAMES).encode() + b"\n" + line, unit=unit, first_is_average=False)
        found = metrics(row)
        assert found["memory_free_bytes"] == 8 * size
        assert found["swap_in_bytes_per_second"] == 11 * size
        assert found["block_in_bytes_per_second"] == 13 * 1024


GROUPS = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----"
BOOT = "3 0 4528 15284136 284160 8232707 0 0 57 772 207 188 39 7 54 0 0"
ROW = "1 0 4528 15280000 284160 8232800 0 0 0 16 100 150 2 1 97 0 0"


def kinds(*lines: str, **options: object) -> dict[str, int]:
    """Rows with samples, and lines of the other kinds."""
    parser, rows = parse("\n".join(lines).encode(), **options)
    assert parser.parsed == len(rows)
    assert parser.parsed + parser.skipped + parser.rejected.count == parser.lines
    return {"samples": parser.parsed, **parser.passed, **parser.rejected.counts}


def test_a_header_of_a_page_starts_no_run() -> None:
    head = (GROUPS, " ".join(NAMES[:17]))
    page = [ROW] * 21
    found = kinds(*head, BOOT, *page[1:], *head, *page, *head, ROW)
    assert found == {"samples": 42, "headers": 6, "since boot": 1}
    assert kinds(*head, BOOT, *page[1:], *head, BOOT, ROW)["since boot"] == 2, "21 rows by cron"


@pytest.mark.parametrize("between", ["", "zzz ***Tue Apr 22 10:00:33 PDT 2014", "Tue Apr 22 10:00:33 UTC 2014", "\0"])
def test_what_stands_between_runs_starts_one(between: str) -> None:
    head = (GROUPS, " ".join(NAMES[:17]))
    found = kinds(*head, BOOT, *[ROW] * 20, between, *head, ROW, ROW)
    assert (found["samples"], found["since boot"]) == (21, 2)


@pytest.mark.parametrize(("time", "since_boot"), [("10:00:30", 1), ("10:00:29", 1), ("10:00:20", 2), ("10:01:00", 2)])
def test_times_decide_whether_a_header_starts_a_run(time: str, since_boot: int) -> None:
    head = (GROUPS, " ".join(NAMES[:17]) + " UTC")
    rows = [f"{row} 2024-05-06 10:00:{second:02}" for row, second in ((BOOT, 0), (ROW, 10), (ROW, 20))]
    assert kinds(*head, *rows, *head, f"{ROW} 2024-05-06 {time}").get("since boot") == since_boot


def test_runs_with_y_have_no_average_since_boot() -> None:
    head = (GROUPS, " ".join(NAMES[:17]))
    assert kinds(*head, ROW, *head, ROW, first_is_average=False) == {"samples": 2, "headers": 4}


@pytest.mark.parametrize("columns", [17, 18])
@pytest.mark.parametrize("zone", ["", "UTC"])
def test_a_header_without_known_names_is_read_by_position(columns: int, zone: str) -> None:
    time = "2026-11-21 13:00:01" if zone else ""
    header = " ".join([*(f"имя{chr(0x430 + at)}" for at in range(columns)), zone])
    rows = [f"{' '.join(map(str, range(1, columns + 1)))} {time}"] * 2
    parser, (row,) = parse("\n".join([GROUPS, header, *rows]).encode())
    assert parser.rejected.count == 0
    assert invalid(row) == dict.fromkeys(("memory_buffers_bytes", "memory_cache_bytes", "cpu_guest_ratio"), "MISSING")
    found = metrics(row)
    assert found["memory_free_bytes"] == 4 * 1024
    assert found["context_switches_per_second"] == 12
    assert found["cpu_steal_ratio"] == 0.17


@pytest.mark.parametrize("columns", [4, 10, 15, 16, 20])
def test_a_header_of_another_width_without_known_names_is_rejected(columns: int) -> None:
    header = " ".join("abcdefghijklmnopqrst"[at] * 3 for at in range(columns))
    row = " ".join(["1"] * columns)
    assert kinds(GROUPS, header, row, row) == {"samples": 0, "headers": 1, "a row before any header": 3}


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("disk- ------------reads------------ ------------writes----------- -----IO------\n"
         "       total merged sectors      ms  total merged sectors      ms    cur    sec",
         "vda    12034   3411  811234    5120  90121  41211 2811222   81222      0     71"),
        ("", "     16384000 K total memory\n      1234567 K used memory\n           42 forks"),
        ("Cache                       Num  Total   Size  Pages", "ext4_inode_cache          12034  12040   1096     9"),
    ],
)  # fmt: skip
def test_other_reports_of_vmstat_are_rejected(header: str, rows: str) -> None:
    alone = kinds(*header.split("\n"), *rows.split("\n"))
    after = kinds(GROUPS, " ".join(NAMES[:17]), BOOT, ROW, *header.split("\n"), *rows.split("\n"))
    assert alone["samples"] == 0
    assert after["samples"] == 1
    for found in (alone, after):
        reasons = sum(n for reason, n in found.items() if "columns" in reason or "header" in reason)
        assert reasons > rows.count("\n")


def test_line_ends_of_windows_and_digits_of_other_scripts() -> None:
    digits = str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹")
    parser, (row,) = parse("\r\n".join([GROUPS, " ".join(NAMES[:17]), BOOT, ROW.translate(digits)]).encode() + b"\r\n")
    assert parser.skipped == 3
    assert metrics(row)["memory_free_bytes"] == 15280000 * 1024


def test_the_stamp_of_a_run_comes_with_its_first_sample() -> None:
    _, rows = parse_file("procps-3.2.8-oswatcher.txt")
    assert [row.stamp for row in rows] == [
        "zzz ***Tue Apr 22 10:00:03 PDT 2014", "", "zzz ***Tue Apr 22 10:00:33 PDT 2014", "",
    ]  # fmt: skip


def test_the_zone_may_stand_in_rows_in_the_header_or_in_both() -> None:
    _, rows = parse_file("procps-3.2.8-timestamp-zone-in-rows.txt")
    assert [row.time for row in rows] == ["2016-07-01 11:44:41", "2016-07-01 11:44:42"]
    assert [metrics(row)["cpu_user_ratio"] for row in rows] == [0.7, 0.6]
    lines = [" ".join(NAMES[:17]) + " JST", *[f"{ROW} 2016-07-01 11:44:4{n} JST" for n in (1, 2)]]
    _, (row,) = parse("\n".join(lines).encode())
    assert row.time == "2016-07-01 11:44:42"


real_lines = [line for path in sorted(CAPTURES.glob("*.txt")) for line in path.read_bytes().splitlines()]


@given(st.lists(st.one_of(st.sampled_from(real_lines), st.binary(max_size=80)), max_size=40))
def test_any_mixture_of_lines_adds_up(lines: list[bytes]) -> None:
    check_lines(lines)


def test_time_and_line_numbers() -> None:
    _, rows = parse_file("procps-3.3-wide.txt")
    assert [(row.line, row.time) for row in rows] == [(5, "2024-01-31 23:59:59"), (6, "2024-02-01 00:00:00")]


@pytest.mark.parametrize("zone", ["UTC", "+03", "cet"])
@pytest.mark.parametrize("cut", ["2", "2026", "2026-11-2", "2026-11-21", "2026-11-21 14", "2026-11-21 14:30:0"])
def test_a_row_that_is_cut_inside_its_time_is_rejected(zone: str, cut: str) -> None:
    values = "1 0 7 8 9 10 11 12 13 14 15 16 1 2 97 0 0 0"
    parser = VmstatParser(SET, first_is_average=False)
    parser.feed(f"{' '.join(NAMES)} {zone}".encode())
    whole = parser.feed(f"{values} 2026-11-21 14:30:05".encode())
    assert whole is not None
    assert whole.time == "2026-11-21 14:30:05"
    assert parser.feed(f"{values} {cut}".encode()) is None
    assert parser.rejected.count == 1


def test_a_cut_time_is_rejected_in_the_first_row_as_well() -> None:
    parser = VmstatParser(SET, first_is_average=False)
    parser.feed(f"{' '.join(NAMES)} UTC".encode())
    assert parser.feed(b"1 0 7 8 9 10 11 12 13 14 15 16 1 2 97 0 0 0 2026") is None
    assert rejected(parser) == {"missing or incomplete time": [[2, 2]]}


def test_a_selected_resource_set_keeps_its_order() -> None:
    chosen = HOST.select(("context_switches_per_second", "tasks_runnable", "memory_total_bytes"))
    parser = VmstatParser(chosen, first_is_average=False)
    parser.feed(" ".join(NAMES).encode())
    row = parser.feed(b"1 0 7 8 9 10 11 12 13 14 15 16 1 2 97 0 0 0")
    assert row is not None
    assert row.values[:2] == [1.0, 16.0]
    assert math.isnan(row.values[2])
    assert list(row.codes) == [codes.VALID, codes.VALID, codes.MISSING]


@pytest.mark.parametrize(
    ("name", "rows", "reasons"),
    [
        ("truncated", 2, {"7 values for 18 columns": [[6, 6]], "11 values for 18 columns": [[8, 8]]}),
        ("header-without-rows", 0, {}),
        ("rows-without-header", 0, {"a row before any header": [[2, 4]]}),
        ("other-tool", 0, {"a row before any header": [[2, 7]]}),
        ("missing-value", 2, {"17 values for 18 columns": [[6, 6]]}),
        ("vanished-column", 1, {"18 values for 17 columns": [[9, 9]]}),
        ("repeated-header", 1, {}),
        ("clock-back", 6, {}),
    ],
)
def test_bad_lines_are_counted_with_their_numbers(name: str, rows: int, reasons: dict[str, list[list[int]]]) -> None:
    parser, found = parse_file(f"hostile-{name}.txt")
    assert len(found) == rows
    assert rejected(parser) == reasons
    assert parser.parsed + parser.skipped + parser.rejected.count == parser.lines


def test_garbage_costs_only_its_own_lines() -> None:
    parser, rows = parse_file("hostile-garbage.txt")
    assert len(rows) == 3
    assert parser.rejected.count == parser.lines - 3 - 4


def test_bad_values_keep_the_rest_of_their_row() -> None:
    _, rows = parse_file("hostile-values.txt")
    free = "memory_free_bytes"
    assert [invalid(row) for row in rows] == [
        {},  # negative: the range check's
        {"cpu_user_ratio": "RANGE"},
        {"interrupts_per_second": "RANGE"},
        {},  # 1e300: the range check's
        {free: "UNREADABLE"},
        {free: "UNREADABLE"},
        {},  # decimal commas
        {free: "MISSING"},
        {free: "RANGE"},
        {},
    ]
    assert metrics(rows[6])["cpu_user_ratio"] == 0.705


def test_a_renamed_column_is_missing_and_reported() -> None:
    parser, (row,) = parse_file("hostile-renamed-column.txt")
    assert invalid(row) == {"cpu_user_ratio": "MISSING"}
    assert parser.unknown == {"uu"}


def test_a_column_that_vanishes_is_missing_until_it_comes_back() -> None:
    _, rows = parse_file("hostile-vanished-column.txt", first_is_average=False)
    assert [invalid(row) for row in rows[1:]] == [{}, {"context_switches_per_second": "MISSING"}, {}]


def test_a_line_of_a_megabyte_is_rejected() -> None:
    parser = VmstatParser(SET)
    assert parser.feed(b"1 " * 500_000) is None
    assert rejected(parser) == {"longer than 65536 bytes": [[1, 1]]}


@given(st.lists(st.one_of(st.binary(max_size=200), st.sampled_from([" ".join(NAMES).encode()])), max_size=20))
def test_no_bytes_raise_and_nothing_unusable_is_valid(lines: list[bytes]) -> None:
    check_lines(lines)


word = st.one_of(
    st.sampled_from(["nan", "inf", "-1", "1e300", "1_0", "-", "", "abc", "0,5", "9" * 400, "1e308"]),
    st.integers(0, 10**12).map(str),
)


@given(st.sampled_from(list(UNITS)), st.lists(st.lists(word, min_size=18, max_size=18), max_size=10))
def test_bad_words_in_rows_are_never_valid(unit: str, rows: list[list[str]]) -> None:
    check_lines([" ".join(NAMES).encode(), *(" ".join(row).encode() for row in rows)], unit)


def check_lines(lines: list[bytes], unit: str = "K") -> None:
    parser = VmstatParser(SET, unit=unit, first_is_average=False)
    for line in lines:
        row = parser.feed(line)
        if row is not None:
            for value, code in zip(row.values, row.codes, strict=True):
                assert code != codes.VALID or math.isfinite(value)
    assert parser.parsed + parser.skipped + parser.rejected.count == parser.lines


@given(
    st.permutations(NAMES),
    st.integers(4, 18),
    st.lists(st.integers(0, 2**40), min_size=18, max_size=18),
    st.sampled_from(["", " 2026-11-21 13:00:01"]),
)
def test_well_formed_lines_give_their_numbers(names: list[str], count: int, numbers: list[int], time: str) -> None:
    names = names[:count]
    header = " ".join(names) + (" UTC" if time else "")
    line = "  ".join(str(number) for number in numbers[:count]) + time
    parser, rows = parse(f"{header}\n{line}\n".encode(), first_is_average=False)
    (row,) = rows
    assert not parser.unknown
    assert row.time == time.strip()
    expected = {name: float("nan") for name in VMSTAT_METRICS}
    for name, number in zip(names, numbers, strict=False):
        metric = VMSTAT_METRICS[NAMES.index(name)]
        kibibytes = name in {"swpd", "free", "buff", "cache", "si", "so", "bi", "bo"}
        expected[metric] = number * 1024.0 if kibibytes else number / 100 if metric.startswith("cpu") else float(number)
    assert [value for value in row.values if not math.isnan(value)] == [
        value for value in expected.values() if not math.isnan(value)
    ]
