"""Faults of archivers and of their database."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.chaos.faults.targets import broken, frozen
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind


@kind("archive", "archiver", 0.5, 5.0, 1.0)
def kill_archiver(installation: Installation, fault: Fault) -> Iterator[None]:
    """kill -9 of an archiver."""
    archiver = installation.archive.archivers[fault.target]
    archiver.kill()
    yield
    archiver.start()


@kind("archive", "archiver", 1.0, 15.0, 1.0)
def freeze_archiver(installation: Installation, fault: Fault) -> Iterator[None]:
    """SIGSTOP of an archiver: it wakes up and still believes that it owns its partitions."""
    with frozen(installation.archive.archivers[fault.target]):
        yield


@kind("archive", "archiver", 2.0, 10.0, 1.0)
def cut_archiver(installation: Installation, fault: Fault) -> Iterator[None]:
    """An archiver's link is cut: it sees its database and no shard."""
    with broken(installation.archive.archivers[fault.target].host.link.cut()):
        yield


@kind("archive", "database", 0.5, 5.0, 1.0)
def kill_database(installation: Installation, _fault: Fault) -> Iterator[None]:
    """kill -9 of all processes of the archive's PostgreSQL."""
    database = installation.archive.database
    database.kill()
    yield
    database.start()


@kind("archive", "database", 1.0, 10.0, 1.0)
def freeze_database(installation: Installation, _fault: Fault) -> Iterator[None]:
    """SIGSTOP of all processes of the archive's PostgreSQL."""
    with frozen(installation.archive.database):
        yield
