"""No line of text stops anything, wherever stderr leads."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from acquisition.terminal import say

SAYS = "from acquisition.terminal import say; say('one'); say('x' * 9000); print('on')"


@contextmanager
def full_device() -> Iterator[int]:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@contextmanager
def closed_pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@contextmanager
def pipe_that_nobody_reads() -> Iterator[int]:
    reading, writing = os.pipe()
    os.write(writing, bytes(fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)))
    yield writing
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("made", [full_device, closed_pipe, pipe_that_nobody_reads])
def test_the_work_goes_on(made: object) -> None:
    with made() as stderr:  # type: ignore[operator]
        done = subprocess.run([sys.executable, "-c", SAYS], stdout=subprocess.PIPE, stderr=stderr, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"on\n")


def test_without_any_stderr_nothing_gets_into_the_output() -> None:
    command = ["sh", "-c", 'exec "$0" "$@" 2>&-', sys.executable, "-c", SAYS]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"on\n")


def test_long_lines_arrive_whole_and_nothing_moves_the_cursor() -> None:
    code = "from acquisition.terminal import say; say('\\x1b[2Jname\\udcff ' + 'x' * 9000 + ' end')"
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.stderr.startswith("\N{REPLACEMENT CHARACTER}[2Jname")
    assert done.stderr.endswith("x end\n")
    assert len(done.stderr) > 9000


def test_a_stream_in_memory_gets_it(capsys: pytest.CaptureFixture[str]) -> None:
    say("two\nlines")
    assert capsys.readouterr().err == "two\nlines\n"


def test_what_journald_reads_says_how_grave_each_line_is() -> None:
    code = (
        "import os; from acquisition.log import category; found = os.fstat(2)\n"
        "tell = category('probe')\n"
        "os.environ['JOURNAL_STREAM'] = f'{found.st_dev}:{found.st_ino}'; tell('on'); tell.warn('two\\nlines')\n"
        "os.environ['JOURNAL_STREAM'] = f'{found.st_dev}:{found.st_ino + 1}'; tell('another')"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.stderr == "<5>shardpulse probe: on\n<4>shardpulse probe: two\n<4>lines\nshardpulse probe: another\n"


def test_a_command_that_fails_says_so_to_journald_as_an_error() -> None:
    code = (
        "import os; found = os.fstat(2); os.environ['JOURNAL_STREAM'] = f'{found.st_dev}:{found.st_ino}'\n"
        "from acquisition.cli import main; main(['no-such-command'])"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.stderr.startswith("<3>shardpulse: error: unknown command")
