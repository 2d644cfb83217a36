"""Parts of the pipeline as processes of a block, with their output."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import started
from tests.support.waiting import eventually

_PATIENCE = 60.0  #: seconds: many start at the same time


class Parts(NamedTuple):
    """``children`` in the order of their commands; ``log`` and ``answers`` are files."""

    children: list[subprocess.Popen[bytes]]
    log: Path
    answers: Path

    def said(self) -> str:
        """What all of them have said so far."""
        return self.log.read_text()

    def place(self) -> str:
        """The URL of the service, as soon as it has told it."""
        return eventually(self.answers.read_text, _PATIENCE, says=self.said).split()[-1]

    def until(self, done: Callable[[], object]) -> None:
        """Wait until ``done()`` holds."""
        eventually(done, _PATIENCE, says=self.said)


def answers(url: str) -> bool:
    """Whether a service has something to say there."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=20) as response:
        return bool(response.status == 200 and response.read())
    return False


@contextlib.contextmanager
def running(commands: Iterable[tuple[Sequence[str], Path]], directory: Path) -> Iterator[Parts]:
    """Start parts: the words of each command and its configuration; their files lie in ``directory``."""
    log, urls = directory / "said", directory / "url"
    with contextlib.ExitStack() as stack:
        said, url = stack.enter_context(log.open("wb")), stack.enter_context(urls.open("wb"))
        children = []
        for words, config in commands:
            command = [sys.executable, "-m", "acquisition", *words, "--config", str(config)]
            out = url if words[0] == "serve" else said
            children.append(stack.enter_context(started(command, stdout=out, stderr=said)))
        yield Parts(children, log, urls)
