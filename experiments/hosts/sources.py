"""Package sources of hosts: one forwarder per source on the bridge.

There is no other way out of a data center.

Each source has an address of its own (198.18.S.2 …), named after it in the hosts' /etc/hosts; its connections are
forwarded to the source, byte by byte. ``main`` is a program of its own that lives as long as its standard input; its
arguments are as 198.18.7.2:80=deb.debian.org:80.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from acquisition.errors import CannotCreateError
from experiments.processes import debian

_ROOT = Path(__file__).resolve().parents[2]
_PYPI = ("https://pypi.org", "https://files.pythonhosted.org")


class Source(NamedTuple):
    """A host of the internet, and the port that is forwarded."""

    name: str
    port: int


def usual() -> list[Source]:
    """This machine's mirror of Debian, and PyPI."""
    urls = [*(debian.mirror() or ["http://deb.debian.org/debian"]), *_PYPI]
    split = [urlsplit(url) for url in urls]
    return [Source(url.hostname or "", url.port or {"http": 80, "https": 443}[url.scheme]) for url in split]


@contextmanager
def forwarding(pairs: Sequence[tuple[str, Source]]) -> Iterator[None]:
    """Forward connections to these addresses of this machine to these sources."""
    words = [f"{address}:{source.port}={source.name}:{source.port}" for address, source in pairs]
    command = [sys.executable, "-c", "from experiments.hosts import sources; sources.main()", *words]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise CannotCreateError(f"{' '.join(command)} did not start")
        yield
        process.kill()


async def _serve(words: Sequence[str]) -> None:
    for word in words:
        here, _, there = word.partition("=")
        (address, port), (name, far) = here.split(":"), there.split(":")

        async def passed_on(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str = name, far: str = far
        ) -> None:
            with contextlib.suppress(OSError):
                other_reader, other_writer = await asyncio.open_connection(name, int(far))
                await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
            writer.close()

        await asyncio.start_server(passed_on, address, int(port))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until its parent is gone


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


def main() -> None:
    """The program started by ``forwarding``."""
    asyncio.run(_serve(sys.argv[1:]))
