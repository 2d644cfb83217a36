"""Topology of a testbed: a TOML file, parsed into frozen values.

::

    interval_seconds = 1.0                    # between two samples of everything

    [hosts.store]                             # one host, "store"
    shard = true                              # a redis-server
    filter = true                             # a filter worker

    [hosts.east]                              # eight hosts, "east1" … "east8"
    count = 8
    probe = true                              # `shardpulse probe`, as shipped
    link = { delay_seconds = 0.02, jitter_seconds = 0.005, loss = 0.001, rate_bits_per_second = 1e8 }
    clock_offset_seconds = -3.0               # wall clock of the host; needs Debian's libfaketime

    [hosts.west]
    emulated = 50                             # hosts that one process emulates, in place of a probe
    entities = 101                            # rows of their frames: the host and 100 VMs
    metrics = 15
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from acquisition.config import schema
from acquisition.config.schema import Meta, Table
from acquisition.errors import ConfigError, NoInputError

MOST_HOSTS = 240
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_LONGEST_NAME = 50


class Conditions(Table):
    """Effect of a link on packets in each direction. A rate of 0 is no limit."""

    delay_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    jitter_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    loss: Annotated[float, Meta(ge=0, le=1)] = 0.0
    rate_bits_per_second: Annotated[float, Meta(ge=0, le=1e12)] = 0.0


class Kind(Table):
    """Kind of a host, and the number of its hosts."""

    count: Annotated[int, Meta(ge=1, le=MOST_HOSTS)] = 1
    shard: bool = False
    filter: bool = False
    probe: bool = False
    emulated: Annotated[int, Meta(ge=0, le=100_000)] = 0
    entities: Annotated[int, Meta(ge=1, le=100_000)] = 1
    metrics: Annotated[int, Meta(ge=1, le=1000)] = 15
    link: Conditions = field(default_factory=Conditions)
    clock_offset_seconds: Annotated[float, Meta(ge=-1e8, le=1e8)] = 0.0


class _Common(Table):
    interval_seconds: Annotated[float, Meta(ge=0.05, le=3600)] = 1.0
    shard_maxmemory_bytes: Annotated[int, Meta(ge=32 << 20)] = 256 << 20


class Host(NamedTuple):
    """One host. ``first`` is the index of its first emulated host in the whole testbed."""

    name: str
    kind: Kind
    first: int

    @property
    def samples(self) -> bool:
        """Whether it has a probe or emulates hosts."""
        return self.kind.probe or self.kind.emulated > 0


class Topology(NamedTuple):
    """All hosts in the order of the file."""

    interval: float
    maxmemory: int
    hosts: tuple[Host, ...]

    def without(self, names: Mapping[str, str], file: object) -> Topology:
        """The topology without some hosts. Raises ConfigError if the rest is no pipeline."""
        left = self._replace(hosts=tuple(host for host in self.hosts if host.name not in names))
        _require_pipeline(left, f"{file} without {', '.join(names)}" if names else str(file))
        return left


def load(path: Path) -> Topology:
    """The testbed described by a file. Raises NoInputError, ConfigError naming file and key."""
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise NoInputError(f"topology {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    kinds = document.pop("hosts", {})
    if not isinstance(kinds, dict):
        raise ConfigError(f"{path}: key hosts: expected a table [hosts.NAME] for each kind of host")
    common = _table(document, _Common, str(path), ())
    made = Topology(common.interval_seconds, common.shard_maxmemory_bytes, tuple(_hosts(kinds, path)))
    if len({host.name for host in made.hosts}) < len(made.hosts):
        raise ConfigError(f"{path}: two hosts have the same name: NAME with a count is NAME1, NAME2, …")
    if len(made.hosts) > MOST_HOSTS:
        raise ConfigError(f"{path}: {len(made.hosts)} hosts: a testbed has at most {MOST_HOSTS}")
    _require_pipeline(made, str(path))
    return made


def _hosts(kinds: Mapping[str, Any], path: Path) -> Iterator[Host]:
    first = 0
    for name, table in kinds.items():
        if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise ConfigError(
                f"{path}: key hosts.{name}: a name has a-z, 0-9 and - and at most {_LONGEST_NAME} of them"
            )
        kind = _table(table, Kind, str(path), ("hosts", name))
        if kind.probe and kind.emulated:
            raise ConfigError(f"{path}: key hosts.{name}: it has a probe, or emulates hosts; make two kinds of it")
        for number in range(1, kind.count + 1):
            yield Host(f"{name}{number}" if "count" in table else name, kind, first)
            first += kind.emulated


def _require_pipeline(made: Topology, what: str) -> None:
    for role in ("shard", "filter"):
        if not any(getattr(host.kind, role) for host in made.hosts):
            raise ConfigError(f"{what}: no host has {role} = true")
    if not any(host.samples for host in made.hosts):
        raise ConfigError(f"{what}: no host samples: set probe = true, or emulated")


TableT = TypeVar("TableT", bound=Table)


def _table(document: object, table: type[TableT], file: str, path: tuple[str, ...]) -> TableT:
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: key {'.'.join(path)}: expected a table")
    for place, known in schema.unknown_keys(document, schema.Kind(table), path):
        raise ConfigError(f"{file}: key {'.'.join(place)}: unknown key; known are {', '.join(known)}")
    try:
        return schema.convert(document, table)
    except schema.Mismatch as error:
        raise ConfigError(f"{file}: key {'.'.join((*path, *error.path))}: {error}") from error
