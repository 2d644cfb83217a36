import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.model import codes
from probes.metrics import PIDSTAT_METRICS, PROCESSES, VMS
from probes.tools.pidstat import PidstatParser, ProcessRow, ProcessTick
from tests.support import FIXTURES

CAPTURES = FIXTURES / "pidstat"
CPU, FAULTS, DISK, SWITCHES = PIDSTAT_METRICS[:5], PIDSTAT_METRICS[5:10], PIDSTAT_METRICS[10:14], PIDSTAT_METRICS[14:]


def parse(data: bytes, parser: PidstatParser | None = None) -> tuple[PidstatParser, list[ProcessTick]]:
    parser = parser or PidstatParser()
    ticks = [tick for line in data.removesuffix(b"\n").split(b"\n") if (tick := parser.feed(line)) is not None]
    last = parser.flush()
    return parser, [*ticks, last] if last else ticks


def parse_file(name: str, parser: PidstatParser | None = None) -> tuple[PidstatParser, list[ProcessTick]]:
    return parse((CAPTURES / name).read_bytes(), parser)


def metrics(row: ProcessRow) -> dict[str, float]:
    return {
        name: value
        for name, value, code in zip(PIDSTAT_METRICS, row.values, row.codes, strict=True)
        if code == codes.VALID
    }


def invalid(row: ProcessRow) -> dict[str, str]:
    return {
        name: codes.name_of(code) for name, code in zip(PIDSTAT_METRICS, row.codes, strict=True) if code != codes.VALID
    }


def shape(ticks: list[ProcessTick]) -> list[int]:
    return [len(tick.rows) for tick in ticks]


@pytest.mark.parametrize(
    ("name", "ticks", "present"),
    [
        ("10.0.0-one-line", [2, 2], set(PIDSTAT_METRICS) - {"cpu_wait_ratio", "io_delay_ticks"}),
        ("11.0.0-one-activity", [2, 2, 1], set(CPU) - {"cpu_wait_ratio"}),
        ("12.6.1-one-line", [3] * 4, set(PIDSTAT_METRICS)),
        ("12.6.1-blocks", [3] * 3, set(PIDSTAT_METRICS)),
        ("12.6.1-threads", [3] * 3, {*CPU, *DISK}),
        ("12.6.1-epoch-user", [3] * 3, set(PIDSTAT_METRICS)),
        ("12.6.1-epoch-blocks", [3] * 3, {*CPU, *FAULTS}),
        ("12.6.1-iso", [3] * 3, {*CPU, *FAULTS}),
        ("12.6.1-human", [3] * 3, {*CPU, *FAULTS, *DISK}),
        ("12.6.1-colours", [3] * 2, {*CPU, *DISK}),
        ("12.6.1-children", [3] * 2, set(CPU)),
        ("12.6.1-other-reports", [3] * 3, set(CPU)),
        ("12.6.1-one-activity", [3] * 3, set(CPU)),
        ("12.6.1-no-permission", [3] * 3, {*CPU, "io_delay_ticks"}),
        ("12.6.1-command-line", [2], set(CPU)),
        ("12.6.1-since-boot", [], set()),
        ("12.6.1-user-names-with-spaces", [4, 4], set(CPU)),
        ("12.6.1-empty-command", [3], set(CPU)),
        ("12.6.1-large-uids", [3, 3], set(PIDSTAT_METRICS)),
        *((f"12.6.1-locale-{language}", [2] * 3, set(CPU)) for language in ("fa_IR", "hi_IN", "nb_NO")),
        *((f"12.6.1-locale-{language}", [2] * 4, {*CPU, *FAULTS}) for language in (
            "de_DE", "en_US", "zh_CN", "ko_KR", "fr_FR", "el_GR", "vi_VN"
        )),
    ],
)  # fmt: skip
def test_what_real_hosts_print(name: str, ticks: list[int], present: set[str]) -> None:
    parser, found = parse_file(f"sysstat-{name}.txt")
    assert parser.rejected.counts == {}
    assert shape(found) == ticks
    assert parser.parsed + parser.skipped == parser.lines
    for tick in found:
        for pid, row in tick.rows.items():
            assert row.pid == pid
            assert set(metrics(row)) == present
            assert set(invalid(row).values()) <= {"MISSING"}


def test_values_are_in_base_units() -> None:
    _, ticks = parse_file("sysstat-10.0.0-one-line.txt")
    row = ticks[0].rows[2200]
    assert row.command == "java"
    assert metrics(row) == {
        "cpu_user_ratio": 0.9,
        "cpu_system_ratio": 0.05,
        "cpu_guest_ratio": 0.0,
        "cpu_ratio": 0.95,
        "minor_faults_per_second": 100.0,
        "major_faults_per_second": 0.0,
        "memory_virtual_bytes": 8388608 * 1024,
        "memory_resident_bytes": 409600 * 1024,
        "memory_ratio": 0.1,
        "disk_read_bytes_per_second": 0.0,
        "disk_write_bytes_per_second": 0.0,
        "disk_write_cancelled_bytes_per_second": 0.0,
        "voluntary_switches_per_second": 10.0,
        "involuntary_switches_per_second": 2.0,
    }
    assert metrics(ticks[0].rows[1021])["disk_write_bytes_per_second"] == 16 * 1024


def test_the_same_sample_from_both_layouts() -> None:
    """The captures ran side by side, so the processes are the same; only the figures differ a little."""
    _, line = parse_file("sysstat-12.6.1-one-line.txt")
    _, blocks = parse_file("sysstat-12.6.1-blocks.txt")
    for a, b in zip(line, blocks, strict=False):
        assert [row.command for row in a.rows.values()] == [row.command for row in b.rows.values()]
        for pid, row in a.rows.items():
            assert row.values == pytest.approx(b.rows[pid].values, rel=0.3, abs=5000)


def test_banner_times_and_lines() -> None:
    parser, ticks = parse_file("sysstat-12.6.1-one-line.txt")
    assert parser.banner is not None
    assert (parser.banner.host, parser.banner.cores) == ("vm", 2)
    assert [tick.time for tick in ticks] == ["13:07:02", "13:07:03", "13:07:04", "13:07:05"]
    assert [row.line for row in ticks[1].rows.values()] == [10, 11, 12]


@pytest.mark.parametrize(
    ("language", "time"),
    [("en_US", "01:08:09 PM"), ("ko_KR", "13시 08분 09초"), ("zh_CN", "13时08分09秒"), ("el_GR", "01:08:09 μμ")],
)
def test_times_of_other_languages(language: str, time: str) -> None:
    _, ticks = parse_file(f"sysstat-12.6.1-locale-{language}.txt")
    assert ticks[0].time == time


def test_commands_may_look_like_anything() -> None:
    _, (tick,) = parse_file("hostile-names.txt")
    assert [row.command for row in tick.rows.values()] == [
        "a  b", "UID PID Command", "|__x", "10:00:01 0 1 0.00", "Average:", "Linux (1 CPU)",
    ]  # fmt: skip
    _, (tick,) = parse_file("sysstat-12.6.1-command-line.txt")
    assert tick.rows[501].command == "sh -c while :; do sleep 1; done # PID Command"


BANNER = "Linux 6.1.0 (deb) \t2024-05-06 \t_x86_64_\t(2 CPU)"
COLUMNS = "%usr %system  %guest   %wait    %CPU   CPU  Command"
FIGURES = "1.00    2.00    0.00    0.00    3.00     1"


def block(before: str, now: str, *pids: int, user: str = "") -> list[str]:
    """A block of pidstat -u, aligned as printf does it."""
    header = f"{before:<11}{'     USER' if user else '   UID'}       PID    {COLUMNS}"
    who = f" {user:>8}" if user else " " + "1000".rjust(5)
    return ["", header, *(f"{now:<11}{who} {pid:9}    {FIGURES}  name{pid}" for pid in pids)]


def counted(*lines: str) -> tuple[list[list[int]], dict[str, int]]:
    """The pids of every tick, and lines by kind."""
    parser, ticks = parse("\n".join(lines).encode())
    assert parser.parsed + parser.skipped + parser.rejected.count == parser.lines
    return [list(tick.rows) for tick in ticks], {**parser.passed, **parser.rejected.counts}


@pytest.mark.parametrize(
    "clock",
    [
        "{}", "{} AM", "{} PM UTC", "UTC {}", "{} অপরাহ্ণ UTC", "{} म.नं. UTC", "{} ንጉሆ ሰዓተ", "{}፡ጽባሕ", "下午 {} CST",
        "సా.{} UTC", "ཆུ་ཚོད{}", "{} e paradites CET",
    ],
)  # fmt: skip
def test_times_of_any_locale_are_no_averages(clock: str) -> None:
    times = [clock.format(f"05:37:4{n}") for n in range(3)]
    lines = [BANNER, *block(times[0], times[1], 7, 8), *block(times[1], times[2], 7, 8)]
    found, kinds = counted(*lines, *block("Trung bình:", "Trung bình:", 7, 8))
    assert found == [[7, 8], [7, 8]]
    assert kinds == {"headers": 4, "comments": 3, "averages": 2}


def test_numerals_in_chinese_are_a_time() -> None:
    lines = [
        *block("十七時三十七分四十秒", "十七時三十七分四十秒", 7),
        *block("十七時三十七分四十秒", "十七時三十七分四十一秒", 7),
    ]
    assert counted(BANNER, *lines) == ([[7]], {"headers": 3, "comments": 2, "since boot": 1})


def test_every_run_of_a_file_has_its_own_since_boot_rows() -> None:
    boot = [BANNER, *block("10:00:00", "10:00:00", 7, 8)]
    run = [BANNER, *block("10:00:00", "10:00:01", 7, 8), *block("10:00:01", "10:00:02", 7, 8)]
    found, kinds = counted(*boot, *run, *boot, "10:00:03 LINUX RESTART\t(2 CPU)", *boot[1:], *run)
    assert found == [[7, 8]] * 4
    assert kinds == {"headers": 11, "comments": 8, "since boot": 6}


def test_without_seconds_the_only_tick_of_a_run_may_be_since_boot() -> None:
    tick = block("kl. 17.37 +0000", "kl. 17.37 +0000", 7, 8)
    average = block("Gj.snitt:", "Gj.snitt:", 7)
    assert counted(BANNER, *tick) == ([], {"headers": 2, "comments": 1, "since boot": 2})
    assert counted(BANNER, *tick, BANNER, *tick) == ([], {"headers": 4, "comments": 2, "since boot": 4})
    assert counted(BANNER, *tick, *average)[0] == [[7, 8]]
    assert counted(BANNER, *tick, *tick)[0] == [[7, 8], [7, 8]]
    assert counted(BANNER, *block("kl. 17.37 +0000", "kl. 17.38 +0000", 7))[0] == [[7]]


@pytest.mark.parametrize("clock", ["10:00:01", "10:00:01 PM", "UTC 10:00:01 PM", "10:00:01  UTC"])
@pytest.mark.parametrize("user", ["root", "jane doe", "a 12", "EXAMPLE\\domain admin2", "1 2 3 4", "x  y", "7"])
@pytest.mark.parametrize("line_layout", [False, True])
def test_user_names_may_have_spaces_and_numbers(user: str, line_layout: bool, clock: str) -> None:
    lines = block("# Time" if line_layout else clock.replace("01", "00"), clock, 1, 4242, 4300, user="root")
    lines[3:] = [line.replace("    root", f"{user:>8}") for line in lines[3:]]
    parser, (tick,) = parse("\n".join([BANNER, *lines]).encode())
    assert parser.rejected.counts == {}
    assert (tick.time.split(), list(tick.rows)) == (clock.split(), [1, 4242, 4300])


@pytest.mark.parametrize(
    "line",
    [
        "UID PID Command", "10:00:00 UID PID Command", "10:00:00 UID PID %usr Command", "10:00:01 1000 9 1.00 x",
        f"10:00:01 1000 9 {' '.join(FIGURES.split())} fake", "Average:", "x" * 70000, "a\0b", "%usr %system Command",
        "# Time UID PID %usr Command", "10:00:01",
    ],
)  # fmt: skip
def test_a_line_within_a_block_costs_only_itself(line: str) -> None:
    lines = [BANNER, *block("10:00:00", "10:00:01", 7, 8), *block("10:00:01", "10:00:02", 7, 8)]
    found, kinds = counted(*lines[:4], line, *lines[4:])
    assert found == [[7, 8], [7, 8]]
    assert sum(kinds.values()) == 3 + 2 + 1


def test_rows_below_a_lost_header_are_not_read_as_those_before() -> None:
    first = block("10:00:00", "10:00:01", 7)
    rows = ["10:00:01     1000         7      4.00      0.50   19228    1496   0.04     0  name7"]
    found, kinds = counted(BANNER, *first, "", *rows)
    assert found == [[7]]
    assert kinds["comments"] == 2
    assert sum(kinds.values()) == 5


def test_sizes_have_decimals_only_before_a_unit() -> None:
    head = "10:00:00      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command"
    row = "10:00:01     1000         7      4.00      0.50   {:>5}    1496   0.04  name7"
    sizes = [("19228", True), ("18.8M", True), ("18.80", False)]
    for size, sound in sizes:
        found, _ = counted(BANNER, "", head, row.format(19228), "x", row.format(size).replace("   7 ", "   8 "))
        assert found == [[7, 8] if sound else [7]]


def test_a_process_twice_in_one_block_is_rejected() -> None:
    lines = block("10:00:00", "10:00:01", 7, 8, 7)
    assert counted(BANNER, *lines) == ([[7, 8]], {"headers": 2, "comments": 1, "duplicate process in one block": 1})


@pytest.mark.parametrize(
    "name", ["", "   ", "7", "7  up", "UID PID Command", "Average:", "Linux 1 (x)\t1\t_\t(1 CPU)", "#"]
)
@pytest.mark.parametrize("end", ["", "\r"])
def test_a_process_may_have_any_name(name: str, end: str) -> None:
    head, row = block("10:00:00", "10:00:01", 9)[1:]
    lines = [
        BANNER,
        "",
        head,
        row,
        row.replace("9    1", "8    1").replace("name9", name),
        row.replace("9    1", "7    1"),
    ]
    parser, (tick,) = parse((end + "\n").join([*lines, ""]).encode())
    assert parser.rejected.counts == {}
    assert [(pid, row.command) for pid, row in tick.rows.items()] == [(9, "name9"), (8, name.strip()), (7, "name9")]


def test_rejected_rows_name_their_process() -> None:
    lines = block("# Time", "10:00:01", 7, 8)
    _, (tick,) = parse("\n".join([BANNER, *lines[:3], "10:00:01     1000         8    1.00    2.00"]).encode())
    assert (list(tick.rows), tick.rejected) == ([7], {8})


def test_a_row_that_is_cut_before_its_command_is_rejected() -> None:
    lines = block("10:00:00", "10:00:01", 7, 8)
    whole, kinds = counted(BANNER, *lines[:-1], lines[-1].removesuffix("  name8"))
    assert whole == [[7]]
    assert sum(kinds.values()) == 4


def test_per_cpu_division_is_undone() -> None:
    _, ticks = parse_file("sysstat-12.6.1-divided.txt", PidstatParser(cores_divided=2))
    for tick in ticks:
        for row in tick.rows.values():
            found = metrics(row)
            assert found["cpu_ratio"] == pytest.approx(found["cpu_user_ratio"] + found["cpu_system_ratio"], abs=0.011)


def test_processes_that_are_absent_from_a_report_lack_its_figures() -> None:
    _, ticks = parse_file("sysstat-11.0.0-zone.txt")
    assert shape(ticks) == [2, 2]
    assert set(metrics(ticks[0].rows[1021])) == set(CPU) - {"cpu_wait_ratio"}
    assert set(metrics(ticks[1].rows[2200])) == set(DISK)


def test_human_figures() -> None:
    _, ticks = parse_file("sysstat-12.6.1-human.txt")
    dd = metrics(ticks[0].rows[12275])
    assert dd["memory_virtual_bytes"] == pytest.approx(2.9 * 2**20)
    assert dd["disk_write_bytes_per_second"] == pytest.approx(39.2 * 2**20)
    assert dd["cpu_ratio"] == 0.157


def test_other_resource_sets() -> None:
    chosen = PROCESSES.select(("memory_resident_bytes", "cpu_ratio"))
    _, ticks = parse_file("sysstat-12.6.1-one-line.txt", PidstatParser(chosen))
    assert ticks[0].rows[12275].values == [15.84 / 100, 1748 * 1024]
    _, ticks = parse_file("sysstat-12.6.1-one-line.txt", PidstatParser(VMS))
    row = ticks[0].rows[12275]
    printed = [metric in PROCESSES.metrics for metric in VMS.metrics]
    assert list(row.codes) == [codes.VALID if one else codes.MISSING for one in printed]
    assert [not math.isnan(value) for value in row.values] == printed


def test_a_tool_that_goes_quiet_is_flushed() -> None:
    parser = PidstatParser()
    lines = (CAPTURES / "sysstat-12.6.1-one-line.txt").read_bytes().splitlines(keepends=True)
    assert not any(parser.feed(line) for line in lines[:7])
    first = parser.flush()
    assert first is not None
    assert len(first.rows) == 3
    assert parser.flush() is None
    assert not any(parser.feed(line) for line in lines[7:12]), "the next header must not end the tick again"


@pytest.mark.parametrize(
    ("name", "ticks", "reasons"),
    [
        ("truncated", [2, 1, 2], {"8 values for 21 columns": [[10, 10]], "3 values for 21 columns": [[16, 16]]}),
        ("renamed-pid", [2, 2], {"a header without PID": [[8, 8]], "a row before any header": [[9, 10]]}),
        ("header-without-rows", [], {}),
        ("rows-without-header", [], {"a row before any header": [[4, 6]]}),
        (
            "vanished-column",
            [2, 2, 0, 2, 1],
            {
                "number of values differs from number of columns": [[13, 13]],
                "values not aligned with their names": [[19, 19]],
            },
        ),
        ("repeated-header", [1, 1], {}),
        ("clock-back", [1] * 6, {}),
        ("twice", [1, 1], {}),
        ("command-looks-like-a-header", [4, 4], {}),
        (
            "newline-in-arguments",
            [3, 1],
            {
                "3 values for 6 columns": [[5, 5], [8, 8]],
                "values not aligned with their names": [[6, 6]],
            },
        ),
    ],
)
def test_bad_lines_are_counted_with_their_numbers(
    name: str, ticks: list[int], reasons: dict[str, list[list[int]]]
) -> None:
    parser, found = parse_file(f"hostile-{name}.txt")
    assert shape(found) == ticks
    assert parser.rejected.lines == reasons
    assert parser.parsed + parser.skipped + parser.rejected.count == parser.lines


def test_garbage_costs_only_its_own_lines() -> None:
    parser, ticks = parse_file("hostile-garbage.txt")
    assert shape(ticks) == [2, 2, 2]
    assert parser.rejected.count == 19


def test_bad_values_keep_the_rest_of_their_row() -> None:
    parser, (tick,) = parse_file("hostile-values.txt")
    resident = "memory_resident_bytes"
    assert {pid: found for pid, row in tick.rows.items() if (found := invalid(row))} == {
        2: {"cpu_user_ratio": "RANGE", "cpu_ratio": "RANGE"},
        3: {"minor_faults_per_second": "RANGE"},
        5: {resident: "UNREADABLE"},
        6: {resident: "UNREADABLE"},
        8: {resident: "MISSING"},
        14: {"disk_read_bytes_per_second": "MISSING"},
    }
    assert metrics(tick.rows[7])["cpu_user_ratio"] == 0.4
    assert parser.rejected.lines == {
        "impossible process id": [[17, 18]],
        "no process id in its column": [[19, 19]],
    }


def test_a_renamed_column_is_missing_and_reported() -> None:
    parser, (tick,) = parse_file("hostile-renamed-column.txt")
    assert [invalid(row) for row in tick.rows.values()] == [{"cpu_user_ratio": "MISSING"}] * 2
    assert parser.unknown == {"%uzr"}


def test_a_line_of_a_megabyte_is_rejected() -> None:
    parser = PidstatParser()
    assert parser.feed(b"1 " * 500_000) is None
    assert parser.rejected.lines == {"longer than 65536 bytes": [[1, 1]]}


HEADER = (
    "# Time        UID       PID    %usr %system  %guest   %wait    %CPU   CPU  minflt/s  majflt/s     VSZ     RSS   "
    "%MEM   kB_rd/s   kB_wr/s kB_ccwr/s iodelay   cswch/s nvcswch/s  Command"
)
real_lines = [line for path in sorted(CAPTURES.glob("*.txt")) for line in path.read_bytes().splitlines()]


@given(st.lists(st.one_of(st.binary(max_size=200), st.sampled_from(real_lines)), max_size=30))
def test_no_bytes_raise_and_nothing_unusable_is_valid(lines: list[bytes]) -> None:
    check_lines(lines)


@given(st.lists(st.tuples(st.sampled_from(real_lines), st.integers(0, 200), st.binary(max_size=3)), max_size=30))
def test_damaged_lines_do_not_raise(lines: list[tuple[bytes, int, bytes]]) -> None:
    check_lines([line[:at] + junk + line[at + len(junk) :] for line, at, junk in lines])


word = st.one_of(
    st.sampled_from(["nan", "inf", "-1", "-1.00", "1e300", "1_0", "-", "abc", "0,5", "9" * 400, "1e308", "1.5k", "k"]),
    st.floats(0, 1e9).map(lambda value: f"{value:.2f}"),
)


@given(st.lists(st.lists(word, min_size=17, max_size=17), max_size=10))
def test_bad_words_in_rows_are_never_valid(rows: list[list[str]]) -> None:
    lines = [f"10:00:01 0 {pid} {' '.join(row)} name" for pid, row in enumerate(rows, 1)]
    check_lines([line.encode() for line in (HEADER, *lines)])


def check_lines(lines: list[bytes]) -> None:
    parser = PidstatParser()
    rows = 0
    for tick in (*map(parser.feed, lines), parser.flush()):
        for row in tick.rows.values() if tick else ():
            rows += 1
            assert len(row.values) == len(row.codes) == 16
            for value, code in zip(row.values, row.codes, strict=True):
                assert code != codes.VALID or math.isfinite(value)
    assert rows <= parser.parsed
    assert parser.parsed + parser.skipped + parser.rejected.count == parser.lines


hundredths = st.integers(0, 10**7)


@given(
    st.sampled_from(["10:00:01", "1792000000", "10:00:01 PM", "UTC 10:00:01", "10时00分01秒"]),
    st.dictionaries(st.integers(1, 1 << 22), st.lists(hundredths, min_size=16, max_size=16), min_size=1, max_size=5),
    st.text("abc:|_ /", min_size=1, max_size=20).filter(str.strip),
    st.sampled_from([".", ","]),
    st.booleans(),
)
def test_well_formed_lines_give_their_numbers(
    time: str, processes: dict[int, list[int]], command: str, point: str, user: bool
) -> None:
    names = HEADER.split()[2:-1]
    if user:
        names[0] = "USER"
    lines = ["Linux 6.1.0 (deb) \t2024-05-06 \t_x86_64_\t(2 CPU)", "", "# Time " + " ".join(names) + "  Command"]
    for pid, numbers in processes.items():
        figures = [f"{number // 100}{point}{number % 100:02}" for number in numbers]
        figures.insert(5, "0")  # the column CPU
        lines.append(f"{time} {'root' if user else 0} {pid} {' '.join(figures)}  {command}")
    parser, (tick,) = parse("\n".join(lines).encode())
    assert parser.rejected.count == 0
    assert tick.time == time
    scales = [0.01] * 5 + [1] * 2 + [1024] * 2 + [0.01] + [1024] * 3 + [1] * 3
    for pid, numbers in processes.items():
        row = tick.rows[pid]
        assert row.command == command.strip()
        assert row.values == pytest.approx(
            [number / 100 * scale for number, scale in zip(numbers, scales, strict=True)], rel=1e-14
        )


def test_a_header_of_threads_without_their_process_is_no_header() -> None:
    text = "12:00:01  UID  PID  TID  %usr  %system  %guest  %wait  %CPU  CPU  Command"
    row = "12:00:02    0   12   12  1.00     2.00    0.00   0.00  3.00    1  init"
    parser, ticks = parse(f"{text}\n{row}\n".encode())
    assert (ticks, parser.rejected.count, parser.parsed) == ([], 2, 0)
