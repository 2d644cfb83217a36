"""``/v1/migrations``: moves reported by schedulers, and their consequences.

The log is kept in the shards (``filters.judging.migration_store``), so that all services and commands
agree about cool-downs and moves in progress, and nothing is lost in a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from acquisition.config import endpoints
from acquisition.errors import DataError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.snapshot import Snapshot
from filters.decisions.migrations import Log, Migration
from filters.documents.encoding import encode
from filters.judging import migration_store
from filters.service.http.parameters import Values
from filters.service.http.problem import Problem, bad_request
from filters.service.interface.reporting import (
    MigrationReport,
    contradiction,
    host_names,
    movable,
    report_of,
    with_names,
)
from filters.service.interface.resource import Parts, Resource
from filters.service.ticks.tick_cache import JSON

_BODY_SECONDS = 10.0
_MOST_WAITING = 64
_Result = TypeVar("_Result")


class MigrationHost(Struct, frozen=True):
    """A host of a migration; ``host`` is its name, null where it is not in the picture."""

    host: str | None
    id: str


class MigrationDocument(Struct, frozen=True):
    """One migration. Times are seconds since 1970 by the shards' clock; ``started`` is null where only the end was
    reported, ``ended`` while it lasts."""

    vm: str
    source: MigrationHost
    destination: MigrationHost
    started: float | None
    ended: float | None
    outcome: str
    reason: str
    in_progress: bool


class MigrationsDocument(Struct, frozen=True):
    """The newest migration of each VM, as far back as cool-downs reach; ``problems`` are entries of the log that
    contradict others and changed nothing."""

    now: float
    migrations: list[MigrationDocument]
    problems: list[str]


def declare(parts: Parts) -> tuple[Resource, ...]:
    """GET lists known migrations, POST accepts one report."""
    known = KnownMigrations(parts)
    return (
        Resource(
            "/v1/migrations",
            "migrations",
            "Migrations reported by schedulers",
            MigrationsDocument,
            handle=known.answer,
            conditional=False,
            close=known.close,
        ),
        Resource(
            "/v1/migrations",
            "report",
            "Report a migration that started, finished or failed",
            MigrationDocument,
            handle=known.report,
            method="POST",
            body=MigrationReport,
            conditional=False,
            problems=("404", "408", "409", "413", "415", "429"),
        ),
    )


class KnownMigrations:
    """The log in the shards, read and written by one thread."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._policy = parts.method.policy
        self._kinds = movable(parts.settings)
        self._newest = parts.newest
        self._thread = ThreadPoolExecutor(1, "migrations")
        self._cluster: Cluster | None = None
        self._waiting = 0

    def close(self) -> None:
        """Accept no more reports."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def answer(self, _: Values, __: Scope, ___: Receive, send: Send) -> None:
        """Send the known migrations. Raises Problem (503)."""
        cache = self._newest.current()
        log = await self._in_thread(self._read)
        await _reply(send, encode(document(log, host_names(cache.snapshot))))

    async def report(self, _: Values, scope: Scope, receive: Receive, send: Send) -> None:
        """Record a report and send the resulting migration. Raises Problem (400, 404, 408, 409, 413, 415, 503)."""
        cache = self._newest.current()
        said = _decode(await read_body(scope, receive, self._settings.serve.limits.body_bytes))
        await _reply(send, await self._in_thread(lambda: self._write(said, cache.snapshot)))

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        if self._waiting >= _MOST_WAITING:
            raise Problem(503, "busy", "too many pending reports: try again", {b"retry-after": b"1"})
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except ShardpulseError as error:
            raise self._newest.trouble(str(error)) from error
        finally:
            self._waiting -= 1

    def _read(self) -> Log:
        return migration_store.read(self._connected(), self._policy)

    def _write(self, said: MigrationReport, snapshot: Snapshot) -> bytes:
        report = report_of(said, snapshot, self._kinds, lambda: self._read().migrations)
        names = host_names(snapshot)
        try:
            log = migration_store.report(self._connected(), report, self._policy)
        except DataError as error:
            raise contradiction(with_names(str(error), names)) from error
        return encode(next(each for each in document(log, names).migrations if each.vm == report.vm))

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = endpoints.connect(self._settings.shards)
        return self._cluster


def document(log: Log, names: Mapping[str, str]) -> MigrationsDocument:
    """Document of a log, the newest first; ``names``: hosts by id."""
    open_now = {each.vm for each in log.migrations.in_progress(log.now)}
    rows = [_row(each, each.vm in open_now, names) for each in log.migrations.newest.values()]
    rows.sort(key=lambda row: -(row.ended or row.started or 0.0))
    return MigrationsDocument(round(log.now, 6), rows, [with_names(problem, names) for problem in log.problems])


def _row(each: Migration, open_now: bool, names: Mapping[str, str]) -> MigrationDocument:
    source, destination = (MigrationHost(names.get(host), host) for host in (each.source, each.destination))
    return MigrationDocument(
        each.vm, source, destination, each.started, each.ended, each.outcome, each.reason, open_now
    )


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The JSON body of a request. Raises Problem (408, 413, 415).

    Its type must be declared: a form on a web page cannot do that, so it cannot make a browser report anything.
    """
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if len(kinds) != 1 or kinds[0].split(b";")[0].strip().lower() != JSON:
        raise Problem(415, "wrong-type", "send the report as Content-Type: application/json")
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _whole(receive, most)
    except TimeoutError as error:
        detail = f"no complete body within {_BODY_SECONDS:.0f} s"
        raise Problem(408, "too-slow", detail, {b"connection": b"close"}) from error


async def _whole(receive: Receive, most: int) -> bytes:
    parts, length, more = [], 0, True
    while more:
        message = await receive()
        part = message.get("body", b"")
        length += len(part)
        if length > most:
            raise Problem(
                413, "body-too-long", f"body too long: at most {most} bytes allowed", {b"connection": b"close"}
            )
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _decode(body: bytes) -> MigrationReport:
    try:
        return msgspec.json.decode(body, type=MigrationReport)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"invalid migration report: {error}") from error


async def _reply(send: Send, body: bytes) -> None:
    headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
