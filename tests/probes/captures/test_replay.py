import io
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from acquisition.errors import EXIT_DATA, NoInputError
from probes import replay_command
from probes.captures.replay import lines_of
from probes.tools.tool_output import MAX_LINE
from tests.support import FIXTURES

KEYS = ["line", "time", "entity", "metrics", "invalid"]


class Output:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.rows: list[dict[str, Any]] = [json.loads(line, parse_constant=refuse) for line in out.splitlines()]
        self.err = err


def refuse(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SHARDPULSE_CONFIG", "")

    def run(tool: str, name: str, *options: str) -> Output:
        code = replay_command.main([tool, str(FIXTURES / tool / name), *options])
        captured = capsys.readouterr()
        return Output(code, captured.out, captured.err)

    return run


def codes_of(row: dict[str, Any]) -> dict[str, str]:
    return {name: sample["code"] for name, sample in row["invalid"].items()}


def test_every_capture_is_valid_json_with_the_documented_keys(replay: Any) -> None:
    for tool in ("vmstat", "pidstat"):
        for path in sorted((FIXTURES / tool).glob("*.txt")):
            for row in replay(tool, path.name).rows:
                assert list(row) == KEYS
                assert len(row["metrics"]) + len(row["invalid"]) == (18 if tool == "vmstat" else 16)
                assert not set(row["metrics"]) & set(row["invalid"])


def test_it_leaves_no_file_open(replay: Any) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        replay("vmstat", "procps-3.3.txt")
    assert [each for each in warned if issubclass(each.category, ResourceWarning)] == []


def test_an_object_per_entity_and_tick(replay: Any) -> None:
    rows = replay("pidstat", "sysstat-12.6.1-iso.txt").rows
    assert [(row["line"], row["time"], row["entity"]) for row in rows[:4]] == [
        (5, "2026-11-21T13:07:02", "12273/Web Content"),
        (6, "2026-11-21T13:07:02", "12274/burner"),
        (7, "2026-11-21T13:07:02", "12275/dd"),
        (15, "2026-11-21T13:07:03", "12273/Web Content"),
    ]
    (row, *_) = replay("vmstat", "procps-3.3.txt", "--host", "alpha").rows
    assert (row["line"], row["time"], row["entity"]) == (5, None, "alpha")
    assert row["metrics"]["cpu_user_ratio"] == 0.7
    assert row["invalid"] == {"cpu_guest_ratio": {"value": None, "code": "MISSING"}}


def test_summary_names_lines_and_reasons(replay: Any) -> None:
    output = replay("vmstat", "hostile-truncated.txt")
    assert output.code == 0
    assert "2 rows parsed" in output.err
    assert "2 rejected" in output.err
    assert "7 values for 18 columns: 1 (line 6)" in output.err
    assert replay("vmstat", "hostile-truncated.txt", "--strict").code == EXIT_DATA
    assert replay("vmstat", "procps-4.0.6.txt", "--strict").code == 0
    assert "uu" in replay("vmstat", "hostile-renamed-column.txt").err


def test_the_summary_adds_up_for_every_capture(replay: Any) -> None:
    for tool in ("vmstat", "pidstat"):
        for path in sorted((FIXTURES / tool).glob("*.txt")):
            first = replay(tool, path.name).err.splitlines()[0]
            lines, _, counts = first.removeprefix(f"{tool}: ").partition(" lines: ")
            counts = re.sub(r" \(.*?\)", "", counts)
            assert sum(int(part.split()[0]) for part in counts.split(", ")) == int(lines), first


@pytest.mark.parametrize(
    ("tool", "name", "times"),
    [
        ("vmstat", "procps-3.2.8-timestamp-zone-in-rows", ["2016-07-01T11:44:41", "2016-07-01T11:44:42"]),
        ("vmstat", "procps-3.2.8-oswatcher", [f"2014-04-22T10:00:{n:02}" for n in (4, 5, 34, 35)]),
        ("vmstat", "procps-3.2.8-appended-runs", [None] * 4),
        ("pidstat", "sysstat-12.6.1-locale-fa_IR", [f"17:37:4{n}" for n in (1, 1, 2, 2, 3, 3)]),
        ("pidstat", "sysstat-12.6.1-locale-nb_NO", ["17:37"] * 6),
        ("pidstat", "sysstat-12.6.1-locale-hi_IN", [None] * 6),
    ],
)
def test_times_are_right_or_null(replay: Any, tool: str, name: str, times: list[str | None]) -> None:
    output = replay(tool, f"{name}.txt", "--strict")
    assert output.code == 0
    assert [row["time"] for row in output.rows] == times
    assert {code for row in output.rows for code in codes_of(row).values()} <= {"MISSING"}


def test_a_last_line_that_is_cut_inside_its_last_value_is_not_valid(replay: Any, tmp_path: Path) -> None:
    text = (FIXTURES / "vmstat" / "procps-3.3.txt").read_text().rstrip()
    cut = tmp_path / "cut.txt"
    cut.write_text(text + "\n 1  0   1024 512000  20480 409600    0    0    12    34   56   78  2  1 57  0 4")
    invalid = codes_of(replay("vmstat", str(cut)).rows[-1])
    assert {invalid[f"cpu_{name}_ratio"] for name in ("user", "system", "idle", "iowait", "steal")} == {"INCONSISTENT"}


def test_limits_come_from_the_banner_or_an_option(replay: Any) -> None:
    def nine(*options: str) -> dict[str, str]:
        rows = replay("pidstat", "hostile-values.txt", *options).rows
        return codes_of(next(row for row in rows if row["entity"] == "9/work er"))

    assert nine() == {"cpu_user_ratio": "RANGE", "cpu_ratio": "RANGE"}
    assert nine("--cores", "16") == {}
    rows = replay("vmstat", "procps-3.3.txt", "--memory", "16M").rows
    assert codes_of(rows[0]) == {
        "memory_free_bytes": "RANGE",
        "memory_buffers_bytes": "RANGE",
        "memory_cache_bytes": "RANGE",
        "cpu_guest_ratio": "MISSING",
    }
    assert rows[0]["invalid"]["memory_free_bytes"]["value"] == 511000 * 1024


def test_bad_values_are_shown_with_what_they_were(replay: Any) -> None:
    rows = replay("vmstat", "hostile-values.txt").rows
    assert [next(iter(row["invalid"].values()), None) for row in rows] == [
        {"value": -0.07, "code": "RANGE"},
        {"value": None, "code": "RANGE"},
        {"value": "Infinity", "code": "RANGE"},
        {"value": 1.024e303, "code": "RANGE"},
        {"value": None, "code": "UNREADABLE"},
        {"value": None, "code": "UNREADABLE"},
        None,
        {"value": None, "code": "MISSING"},
        {"value": "Infinity", "code": "RANGE"},
        None,
    ]


@pytest.mark.parametrize("tool", ["vmstat", "pidstat"])
def test_a_clock_that_steps_back_costs_one_tick(replay: Any, tool: str) -> None:
    rows = replay(tool, "hostile-clock-back.txt").rows
    order = [set(codes_of(row).values()) - {"MISSING"} for row in rows]
    assert order == [set(), set(), {"ORDER"}, set(), {"ORDER"}, set()]
    assert [row["time"][11:] for row in rows][1:3] == ["02:59:59", "02:00:00"]


def test_midnight_is_no_step_back(replay: Any) -> None:
    rows = replay("pidstat", "hostile-midnight.txt").rows
    assert [row["time"] for row in rows] == ["2024-05-06T23:59:59", "2024-05-07T00:00:00", "2024-05-07T00:00:01"]
    assert not any(row["invalid"] for row in rows)


def test_counters_that_went_back(replay: Any) -> None:
    rows = replay("vmstat", "hostile-reset-counter.txt").rows
    assert codes_of(rows[0]) == {"block_in_bytes_per_second": "RESET", "interrupts_per_second": "RESET"}
    assert codes_of(rows[1]) == {}


def test_sums_that_do_not_add_up(replay: Any, tmp_path: Path) -> None:
    rows = replay("vmstat", "hostile-inconsistent.txt").rows
    assert [set(codes_of(row).values()) for row in rows] == [{"INCONSISTENT"}, {"INCONSISTENT"}, set()]
    config = tmp_path / "my.toml"
    config.write_text("[checks.inconsistent]\nenabled = false\n")
    assert not any(row["invalid"] for row in replay("vmstat", "hostile-inconsistent.txt", "--config", str(config)).rows)


def test_limits_of_the_configuration(replay: Any, tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text("[checks.range.limits]\ninterrupts_per_second = [0, 500]\n")
    rows = replay("vmstat", "procps-3.3.txt", "--config", str(config)).rows
    assert codes_of(rows[0])["interrupts_per_second"] == "RANGE"


def test_a_pid_with_another_command_is_another_entity(replay: Any, tmp_path: Path) -> None:
    text = (FIXTURES / "pidstat" / "sysstat-11.0.0-one-activity.txt").read_text()
    assert replay("pidstat", "sysstat-11.0.0-one-activity.txt").rows[1]["entity"] == "2200/java"
    changed = tmp_path / "changed.txt"
    changed.write_text(text.replace("91.00    5.00    0.00   96.00     3  java", "91.00 5.00 0.00 96.00 3  bash"))
    rows = replay("pidstat", str(changed)).rows
    assert [row["entity"] for row in rows] == ["1021/systemd", "2200/java", "1021/systemd", "2200/bash", "1021/systemd"]


def test_what_cannot_be_read(replay: Any, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path in (empty, tmp_path / "absent", tmp_path):
        with pytest.raises(NoInputError, match=str(path)):
            replay("vmstat", str(path))


@pytest.mark.parametrize("options", [["--cores", "0"], ["--memory", "x"], ["--interval", "nan"], ["--unit", "q"]])
def test_options_that_make_no_sense(replay: Any, options: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        replay("vmstat", "procps-3.3.txt", *options)
    assert error.value.code == 2


def test_standard_input_and_a_reader_that_has_enough() -> None:
    data = (FIXTURES / "vmstat" / "procps-4.0.2.txt").read_bytes()
    command = [sys.executable, "-m", "acquisition", "replay", "vmstat", "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    assert len(done.stdout.splitlines()) == 4
    done = subprocess.run(command, input=b"", capture_output=True, check=False)
    assert done.returncode == 66


def test_lines_are_read_in_bounded_memory() -> None:
    long = b"x" * (3 * MAX_LINE)
    data = b"a\n" + long + b"\nb\n" + b"y" * MAX_LINE + b"\n" + long
    found = list(lines_of(io.BytesIO(data)))
    assert [len(line) for line in found] == [2, MAX_LINE + 1, 2, MAX_LINE + 1, MAX_LINE + 1]
    assert found[2] == b"b\n"
