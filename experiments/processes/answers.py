"""Answers of other programs: figures in their JSON documents."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from acquisition import lifeline
from acquisition.errors import ShardpulseError
from experiments.processes.control import ChildFailed, python
from experiments.processes.needs import LACKS

_STOP_SECONDS = 20.0
_TOLD_EVERY = 30.0


class Lacking(ShardpulseError):
    """The machine lacks something needed by a program."""


def ask(program: str, words: Sequence[str], seconds: float) -> dict[str, Any]:
    """The JSON document of a program. Raises Lacking, or ChildFailed with the end of its output."""
    command = lifeline.tied(python(f"experiments.{program}", *words, "--json"))
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=said) as child:
            try:
                _wait(child, program, seconds)
            finally:
                _end(child)
        for file in (said, told):
            file.seek(0)
        last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
        if LACKS in last:
            raise Lacking(last.partition(LACKS)[2])
        try:
            answer: dict[str, Any] = json.load(told)
        except ValueError:
            raise ChildFailed(f"experiments.{program} ended with exit code {child.returncode}: {last}") from None
        return answer


def _wait(child: subprocess.Popen[bytes], program: str, seconds: float) -> None:
    """Wait until it has ended, reporting progress now and then. Raises ChildFailed after ``seconds``."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(min(_TOLD_EVERY, seconds - passed))
            return
        print(f"   {program} has worked for {time.monotonic() - began:,.0f} s", file=sys.stderr, flush=True)
    raise ChildFailed(f"experiments.{program} was not done after {seconds:g} s")


def _end(child: subprocess.Popen[bytes]) -> None:
    """End it, with time to clean up, if it still runs."""
    child.terminate()
    try:
        child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
