"""Trace of one line of vmstat, from the pipe of the probe to ``/v1/hot``.

Probe, filter and service run in this process, around a real shard. ``sys.setprofile`` notes each product file in which
a function is called while the line is on its way; connecting, loading and the pauses between lines are not traced. The
line makes its host hot, so that it is judged at once. Timers may expire meanwhile: a file counts if each of several
such lines passes it.

``python -m tests.support.sample_way --write`` writes the list into docs/architecture.md;
tests/test_sample_way.py holds both equal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import NamedTuple, Self
from unittest import mock

from starlette.types import ASGIApp, Message

from acquisition.config.loader import load
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address
from acquisition.model.identity import host_id
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.wire import keys
from filters.decisions.verdict import Outcome
from filters.service.http.access import access
from filters.service.service import Service
from filters.service.ticks.tick_cache import NewestCache
from filters.worker.inputs.plan import InputsSettings
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.channel import Channel
from filters.worker.partitions.settings import FilterSettings
from probes.loop.agent_settings import decode
from probes.loop.probe import Probe
from tests.support import FIXTURES, ROOT
from tests.support.holding import hold_partitions
from tests.support.waiting import PATIENCE, eventually

PAGE = ROOT / "docs" / "architecture.md"
TITLE = "## Which way does a sample take through the files?"
PACKAGES = ("acquisition", "probes", "filters")
HOST = "traced"
_LINES = 3  #: that are traced
_CAPTURE = FIXTURES / "vmstat" / "procps-4.0.2.txt"
_QUIET = b" 1  0      0 17885952   3168 441632    0    0     0     0  266  510  2  1 97  0  0\n"
_PIPE = "pipe"
#: Of one host vmstat alone is read, and its newest line decides.
_CONFIG = f"""
host.name = "{HOST}"
shards.addresses = ["{{address}}"]
probe.ring_path = "{{directory}}/ring"
probe.host.source = "vmstat"
probe.host.metrics = ["cpu_user_ratio", "cpu_system_ratio", "cpu_idle_ratio", "cpu_iowait_ratio", "cpu_steal_ratio"]
probe.processes.enabled = false
probe.vms.enabled = false
serve.bind = "127.0.0.1:0"
decisions.parameters.contention.k = 0
decisions.parameters.contention.smoothed = false
"""
_INTRODUCTION = """\
A line of vmstat that makes its host hot passes {count} Python files from the pipe of the probe to the answer of
`/v1/hot`: those in which a function is called meanwhile. Work per connection, per tick of all hosts, or on a timer is
not listed; C is not either. `python -m tests.support.sample_way --write` writes this section.
"""
TITLES = {
    "probe": "In the probe, from the pipe to the socket",
    "filter": "In the filter, from the raw stream to the commit",
    "service": "In the service, from the shard to the answer",
}


class Way(NamedTuple):
    """The files of each part of the pipeline, in the order in which a line comes to them; none is named twice."""

    probe: tuple[str, ...]
    filter: tuple[str, ...]
    service: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """All of them."""
        return self.probe + self.filter + self.service


class Trace:
    """``found`` has the files in which functions of the product are called, in order, each with the part of the
    pipeline that came to it first; ``ended`` says whether the last function of that part has returned."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.ended = False
        self._part = ""
        self._last: CodeType | None = None

    @contextlib.contextmanager
    def of(self, part: str, last: FunctionType | None = None) -> Iterator[None]:
        """Note what is called in this thread for ``part``, until the function ``last`` has returned. If it has not in
        the end, nothing is noted: something else was done."""
        before, self._part = dict(self.found), part
        self._last, self.ended = None if last is None else last.__code__, last is None
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            if not self.ended:
                self.found = before

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            name = code.co_filename.removeprefix(f"{ROOT}/")
            if name.partition("/")[0] in PACKAGES:
                self.found.setdefault(name, self._part)
        elif event == "return" and code is self._last:
            sys.setprofile(None)
            self.ended = True


class Pipeline:
    """Probe, filter and service of one host; each works only when it is called."""

    def __init__(self, cluster: Cluster, shards: Shards, directory: Path) -> None:
        hold_partitions(cluster)
        layout = read_layout(cluster)
        number = keys.partition_of(host_id(HOST), layout.partitions)
        config = _configuration(shards, directory)
        settings = load(str(config))
        self._cluster, self._tag = cluster, layout.tags[number]
        self._filter = lone_worker(shards.connect(), layout, FilterSettings(inputs=InputsSettings()), [number])
        self._service = Service(settings, access(settings.serve))
        self._writer, self._probe = _probe(config)
        self._source = self._probe.modules[0].source
        eventually(self._source.filenos, meanwhile=lambda: self._probe.step(latest=0.0))
        self._pipe = os.open(directory / _PIPE, os.O_WRONLY)
        eventually(lambda: self._filter.settled, meanwhile=lambda: self._filter.turn(0.05))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pipe)
        self._probe.close()
        self._writer.close()
        self._filter.close()
        self._service.reading.start()  # the thread closes its connections when it ends
        self._service.reading.stop()

    def begin(self) -> None:
        """A header, an average since boot, and quiet lines until the host is judged."""
        *header, since_boot = _CAPTURE.read_bytes().splitlines(keepends=True)[1:4]
        os.write(self._pipe, b"".join(header) + since_boot)
        eventually(self._is_quiet, meanwhile=lambda: self._pass(_QUIET, Trace()))

    def _is_quiet(self) -> bool:
        outcome = [each.outcome for each in self._service.reading.read_once().verdicts.heat.verdicts.values()]
        return outcome == [Outcome.NOT_HOT]

    def trace(self) -> dict[str, str] | None:
        """File -> part of the pipeline, of a line that makes the host hot; a quiet one follows. None where the line was
        late, as on a busy machine, and did not change the verdict."""
        trace = Trace()
        self._pass(_CAPTURE.read_bytes().splitlines(keepends=True)[6], trace)
        made_hot = trace.ended
        hot = json.loads(asyncio.run(_answer(self._service.app, trace))).get("hot", ())
        self._pass(_QUIET, Trace())
        self._service.reading.read_once()
        return trace.found if made_hot and [each["host"] for each in hot] == [HOST] else None

    def _pass(self, line: bytes, trace: Trace) -> None:
        """Print a line in the middle of the next tick and let each part take it."""
        time.sleep(1.0 - (time.time() + 0.5) % 1.0)
        self._work()
        entries, commit = self._entries(), self._commit()
        os.write(self._pipe, line)
        select.select(self._source.filenos(), [], [])
        with trace.of("probe", Writer.service):
            self._probe.step()
        eventually(lambda: self._entries() > entries)
        trace.ended = False
        while not trace.ended:
            with trace.of("filter", Channel.commit):
                self._filter.turn(PATIENCE)
        eventually(lambda: self._commit() != commit)
        with trace.of("service", NewestCache.renew):
            self._service.reading.read_arrivals()
        self._work()

    def _work(self) -> None:
        """What is due, and what the shard has answered meanwhile."""
        for _ in range(3):
            self._filter.turn(0.01)
            self._probe.step(latest=0.0)

    def _entries(self) -> int:
        key = keys.raw(self._tag)
        return int(self._cluster.call(key, "XLEN", key))

    def _commit(self) -> bytes | None:
        key = keys.commit(self._tag)
        found: bytes | None = self._cluster.call(key, "GET", key)
        return found


def _configuration(shards: Shards, directory: Path) -> Path:
    """The configuration, and a ``vmstat`` that prints what is written into a pipe."""
    pipe, tool, config = directory / _PIPE, directory / "vmstat", directory / "shardpulse.toml"
    os.mkfifo(pipe)
    tool.write_text(f"#!/bin/sh\nexec cat {pipe}\n")
    tool.chmod(0o755)
    config.write_text(_CONFIG.format(address=shards.addresses[0], directory=directory))
    return config


def _probe(config: Path) -> tuple[Writer, Probe]:
    """The probe of a configuration whose directory has the ``vmstat``."""
    command = [sys.executable, "-m", "acquisition", "probe", "--compile", "--config", str(config)]
    settings = decode(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    outbox = Outbox(settings.ring_path, settings.ring_bytes, settings.ring_seconds)
    writer = Writer(host_id(HOST), HOST, [Address(*seed) for seed in settings.seeds], None, outbox)
    with mock.patch.dict(os.environ, PATH=f"{config.parent}:{os.environ['PATH']}"):
        return writer, Probe(settings, writer, print)


async def _answer(app: ASGIApp, trace: Trace) -> bytes:
    """The body that ``/v1/hot`` answers."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": "/v1/hot", "query_string": b"", "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
    }  # fmt: skip
    with trace.of("service"):
        await app(scope, receive, send)
    return b"".join(message.get("body", b"") for message in sent)


def way(cluster: Cluster, shards: Shards, directory: Path) -> Way:
    """The files that every one of some lines has passed."""
    with Pipeline(cluster, shards, directory) as pipeline:
        pipeline.begin()
        first, *others = [eventually(pipeline.trace) for _ in range(_LINES)]
    common = [file for file in first if all(file in other for other in others)]
    return Way(*(tuple(file for file in common if first[file] == part) for part in Way._fields))


def section(found: Way) -> str:
    """The list as the page has it."""
    lists = "".join(
        f"\n{TITLES[part]} ({len(files)} files):\n\n" + "".join(f"- `{file}`\n" for file in files)
        for part, files in found._asdict().items()
    )
    return f"{TITLE}\n\n{_INTRODUCTION.format(count=len(found.files))}{lists}\n"


def page(found: Way) -> str:
    """docs/architecture.md with this list."""
    before, _, after = _split()
    return before + section(found) + after


def documented() -> list[str]:
    """The files that the page lists."""
    return re.findall("^- `(.*)`$", _split()[1], re.MULTILINE)


def _split() -> tuple[str, str, str]:
    """The page before the list, its section, and the rest."""
    text = PAGE.read_text()
    start = text.index(f"{TITLE}\n")
    end = text.index("\n## ", start) + 1
    return text[:start], text[start:end], text[end:]


def main(argv: list[str]) -> None:
    """Trace a line, and print the list or write the page with it."""
    with (
        tempfile.TemporaryDirectory() as name,
        start_shards(1, Path(name) / "shards", maxmemory_bytes=64 << 20) as shards,
        contextlib.closing(shards.connect()) as cluster,
    ):
        found = way(cluster, shards, Path(name))
    if argv == ["--write"]:
        PAGE.write_text(page(found))
    else:
        print(section(found), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
