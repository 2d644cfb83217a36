"""The log: levels by category, one line with fields, and nothing at all where it is off."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGHUP

import pytest

from acquisition import cli, log
from acquisition.link.cluster import Cluster
from acquisition.terminal import INFO
from tests.support import ROOT, parts
from tests.support.waiting import eventually

PACKAGES = ("acquisition", "probes", "filters")
FLAGS = {"info": "informs", "debug": "debugs"}
PARTS = (("probe",), ("filter",), ("serve",), ("archive", "run"))
SECRET = "a-token-that-nobody-may-read"
#: What an operator who asks for everything finds.
LINES = (
    "probe: tick number=",
    "probe.sources: read set=host source=procfs tick=",
    "probe.outbox: sent bytes=",
    "probe.outbox: applied cursor=",
    "filter.leases: takes partition=",
    "filter.worker: turn frames=",
    "filter.worker: read partition=",
    "serve.reading: picture number=",
    "serve.decisions: verdict host=",
    "serve.http: GET path=/v1/hot parameters=token status=",
    "archive.follower: round partitions=",
)


@pytest.fixture(autouse=True)
def levels_end() -> Iterator[None]:
    yield
    log.apply(log.levels())


# -- Levels.


def test_the_longer_name_wins_and_a_later_text_wins_over_an_earlier() -> None:
    chosen = log.levels("probe.sources=debug, info", "filter=error,filter.worker=warning")
    assert chosen["probe.sources"] == log.DEBUG
    assert chosen["probe"] == chosen["serve.http"] == INFO
    assert (chosen["filter"], chosen["filter.leases"], chosen["filter.worker"]) == (3, 3, 4)
    assert log.levels("probe.sources=debug", "probe=notice")["probe.sources"] == log.NOTICE
    assert set(log.levels().values()) == {log.NOTICE}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("probe.source=debug", "unknown category 'probe.source'; did you mean probe.sources?"),
        ("probe=debgu", "unknown level 'debgu'; did you mean debug?"),
        ("=debug=", "unknown category '=debug'"),
        ("probe", "unknown level 'probe'; expected one of error, warning, notice, info, debug"),
    ],
)
def test_a_wrong_name_gets_a_suggestion(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in PARTS:
        with pytest.raises(SystemExit, match="2"):
            cli.main([*words, "--log", text])
        assert said in capsys.readouterr().err
    (tmp_path / "log.toml").write_text(f'[host]\nname = "here"\n[log]\nlevels = "{text}"\n')
    for words in PARTS:
        assert cli.main([*words, "--config", str(tmp_path / "log.toml")]) == 78
        assert f"log.toml line 4: key log.levels: {said}" in capsys.readouterr().err


# -- Lines.


def test_fields_are_words_and_nothing_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    log.apply(log.levels("probe=info"))
    said = log.category("probe.sources")
    said.info(
        "read", set="vms", seconds=0.00123456789, name="a b", more='"', empty="", on=True, line="x\ny\x1b[2J\u202e"
    )
    said.debug("is not wanted")
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        'shardpulse probe.sources: read set=vms seconds=0.00123457 name="a b" more="\\"" empty="" on=True '
        'line="x\\ny\\u001b[2J\N{REPLACEMENT CHARACTER}"'
    )


def test_lines_have_a_time_and_a_level_where_journald_adds_none() -> None:
    code = (
        "import os; from acquisition import log; found = os.fstat(2); LOG = log.category('probe')\n"
        "LOG('as ever'); log.apply(log.levels('probe=info')); LOG.info('tick', number=1); LOG.warn('wrong')\n"
        "os.environ['JOURNAL_STREAM'] = f'{found.st_dev}:{found.st_ino}'; LOG.info('tick', number=2)"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    expected = [
        "shardpulse probe: as ever",
        f"{stamp} info shardpulse probe: tick number=1",
        f"{stamp} warning shardpulse probe: wrong",
        "<6>shardpulse probe: tick number=2",
    ]
    lines = done.stderr.splitlines()
    assert len(lines) == len(expected)
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(expected, lines, strict=True)), lines


def test_lines_that_nobody_read_are_counted_and_hold_up_nothing() -> None:
    reading, writing = os.pipe()
    code = (
        "import os, sys; from acquisition.terminal import say\n"
        "for number in range(2000): say('x' * 1000)\n"  # at 50 ms each that would be well over a minute
        "print('on', flush=True); sys.stdin.readline(); say('again')"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writing) as process:
        os.close(writing)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        os.read(reading, 1 << 20)
        process.stdin.write(b"\n")
        process.stdin.close()
        with open(reading, "rb") as read:
            said = read.read().decode()
    assert re.search(r"shardpulse: \d+ lines are lost: stderr was not read\nagain\n", said), said[-200:]


# -- Statements.


def test_log_statements_are_guarded_and_all_categories_used() -> None:
    """Off, nothing is formatted and nothing called: experiments.log_cost takes out just what this finds."""
    used: set[str] = set()
    for path in [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]:
        tree = ast.parse(path.read_text())
        made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_category(node)]
        used |= {node.args[0].value for node in made if isinstance(node.args[0], ast.Constant)}  # type: ignore[misc]
        if not made:
            continue
        guarded = {
            id(inner)
            for node in ast.walk(tree) if isinstance(node, ast.If)
            for inner in ast.walk(node) if _names_flag(node.test, inner)
        }  # fmt: skip
        wrong = [
            f"{path.relative_to(ROOT)}:{node.lineno}" for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FLAGS
            and id(node) not in guarded
        ]  # fmt: skip
        assert not wrong
    assert used == set(log.CATEGORIES)


def _is_category(node: ast.Call) -> bool:
    return ast.unparse(node.func) in ("category", "log.category")


def _names_flag(test: ast.expr, statement: ast.AST) -> bool:
    """Whether ``test`` looks at the flag of what is logged."""
    if not (isinstance(statement, ast.Call) and isinstance(statement.func, ast.Attribute)):
        return False
    flag = f"{ast.unparse(statement.func.value)}.{FLAGS.get(statement.func.attr)}"
    return any(ast.unparse(part) == flag for part in ast.walk(test))


# -- Running parts.


def test_running_parts_say_what_they_do_as_soon_as_they_are_asked(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "all.toml"
    listed = ", ".join(f'"{address}"' for address in cluster.masters())
    config.write_text(
        f'[host]\nname = "here"\n[shards]\naddresses = [{listed}]\n'
        f'[probe]\ninterval_seconds = 0.2\nring_path = "{tmp_path}/ring"\n'
        "[probe.processes]\nenabled = false\n[probe.vms]\nenabled = false\n"
        f'[serve]\nbind = "127.0.0.1:0"\n[archive]\nurl = "{tmp_path}/archive.db"\n'
        '[log]\nlevels = "notice"\n'
    )

    def change(before: str, after: str) -> None:
        config.write_text(config.read_text().replace(f'levels = "{before}"', f'levels = "{after}"'))
        for child in running.children:
            child.send_signal(SIGHUP)

    with parts.running([(words, config) for words in PARTS], tmp_path) as running:
        place = running.place()
        running.until(lambda: "smoothing" in running.said() and "following" in running.said())
        running.until(lambda: parts.answers(f"{place}/v1/snapshot"))
        assert not re.search(r"tick number=|turn frames=|picture number=", running.said())
        change("notice", "debgu")
        running.until(lambda: running.said().count("did you mean debug?") == len(PARTS))
        change("debgu", "debug")
        request = urllib.request.Request(
            f"{place}/v1/hot?token={SECRET}", headers={"Authorization": f"Bearer {SECRET}"}
        )

        def complete() -> bool:
            with suppress(urllib.error.HTTPError):  # there is no such parameter
                urllib.request.urlopen(request, timeout=20).close()
            return all(line in running.said() for line in LINES)

        eventually(complete, says=lambda: [line for line in LINES if line not in running.said()])
        assert SECRET not in running.said()
        change("debug", "notice")
        running.until(lambda: running.said().count("new configuration in effect") == 2)
        rest = running.said().rpartition("new configuration in effect")[2]
        assert "probe: tick" not in rest
        assert [child.poll() for child in running.children] == [None] * len(PARTS)
