"""Archive of a chaos run: archivers on their own hosts, one PostgreSQL."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.shards.servers import grants
from acquisition.snapshot.reconcile import registered
from acquisition.snapshot.reconcile.registered import ARCHIVE, Registered
from experiments.chaos.options import Options
from experiments.chaos.service import Service
from experiments.processes.postgresql import Server
from experiments.processes.waiting import eventually
from experiments.testbed import ReplicatedCluster, Testbed
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.migrating import migrate

_CONFIG = "[archive]\ngrace_seconds = 1.0\nlease_seconds = 3.0\n"
_FINISH_SECONDS = 20.0


class ArchiveParts(NamedTuple):
    """Archivers and their database; ``database`` is used only with ``archivers``."""

    archivers: list[Service]
    database: Server

    def finish(self, cluster: Cluster, seconds: float) -> Registered:
        """Wait until the current content of the streams has been read, have all minutes closed, and end the archivers;
        returns their counts. Raises TemporaryError if they do not finish, or had to be killed; ShardError."""
        now = time.time()

        def problem() -> str:
            found = _books(cluster)
            why = found.trouble or "it reports no trouble"
            return f"the archive is {found.behind_seconds:.0f} s behind after {seconds:g} s: {why}"

        eventually(lambda: _books(cluster).behind_seconds <= time.time() - now, seconds, problem)
        end(self.archivers, _FINISH_SECONDS)
        return _books(cluster)


@contextlib.contextmanager
def running(options: Options, directory: Path, bed: Testbed, shards: ReplicatedCluster) -> Iterator[ArchiveParts]:
    """Everything started, with an empty database. Its directory is removed at the end, the archivers' logs are kept."""
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="shardpulse-chaos-db-", dir="/tmp"))
        database = Server(Path(home))
        stack.callback(database.stop)
        database.start()
        engine = make_engine(parse_url(database.url))
        with engine.begin() as connection:
            migrate(connection)
        engine.dispose()
        config = directory / "archive.toml"
        config.write_text(_CONFIG + shards.section(grants.ARCHIVE))
        command = ["archive", "run", "--finish", "--config", str(config), "--archive", database.url]
        archivers = []
        for number in range(options.archivers):
            log = directory / "archivers" / f"archiver-{number}.log"
            archivers.append(Service(f"archiver {number}", bed.add_host(), command, log))
            stack.callback(archivers[-1].stop)
            archivers[-1].start()
        yield ArchiveParts(archivers, database)


def end(archivers: Sequence[Service], patience: float) -> None:
    """Have all of them finish. Raises TemporaryError naming those killed after ``patience`` seconds each without
    finishing: their unwritten data are missing in the database."""
    if killed := [archiver.name for archiver in archivers if not archiver.stop(patience)]:
        late = f"did not finish within {patience:g} s of SIGTERM and had to be killed"
        raise TemporaryError(f"{', '.join(killed)} {late}: the archive was not compared")


def _books(cluster: Cluster) -> Registered:
    found = [row for row in registered.read(cluster, read_layout(cluster)) if row.name == ARCHIVE]
    if not found:
        raise TemporaryError("no archiver has said anything")
    return found[0]
