"""No line of text stops anything, wherever stderr leads."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from acquisition.stderr import say

SAYS = "from acquisition.stderr import say; say('one'); say('x' * 9000); print('on')"


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
    code = "from acquisition.stderr import say; say('\\x1b[2Jname\\udcff ' + 'x' * 9000 + ' end')"
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.stderr.startswith("\N{REPLACEMENT CHARACTER}[2Jname")
    assert done.stderr.endswith("x end\n")
    assert len(done.stderr) > 9000


def test_a_stream_in_memory_gets_it(capsys: pytest.CaptureFixture[str]) -> None:
    say("two\nlines")
    assert capsys.readouterr().err == "two\nlines\n"
