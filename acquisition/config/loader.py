"""Loader of the configuration: one TOML file, parsed once into frozen values.

Search order of the file: the given path (``--config``),
``$SHARDPULSE_CONFIG``, ``/etc/shardpulse/shardpulse.toml``; without any, the
defaults of ``acquisition.config.settings`` apply. A file that was named must exist. An
empty file is refused, because a failed write leaves one behind; a file with
only a comment means the defaults.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from acquisition import log
from acquisition.config import schema
from acquisition.config.inputs import Inputs
from acquisition.config.settings import Settings, Shards
from acquisition.errors import ConfigError, NoInputError
from acquisition.link.resp import parse_address
from acquisition.link.trust import trusted_file

__all__ = [
    "ENVIRONMENT",
    "SYSTEM_PATH",
    "Settings",
    "Shards",
    "check_kernels",
    "check_metrics",
    "find",
    "load",
    "parse",
]

ENVIRONMENT = "SHARDPULSE_CONFIG"
SYSTEM_PATH = "/etc/shardpulse/shardpulse.toml"


def load(path: str | None = None) -> Settings:
    """Settings from ``path``, or from the first file of the search order.

    Raises NoInputError if a named file cannot be read or is empty, ConfigError if others may write it, and, naming
    file, line and key, if its content is invalid.
    """
    found = find(path)
    if found is None:
        return Settings()
    try:
        with open(found, "rb") as file:
            trusted_file.check_writers(os.fstat(file.fileno()), f"configuration {found}")
            data = file.read()
    except OSError as error:
        raise NoInputError(f"configuration {found} cannot be read: {error.strerror}") from error
    if not data.strip():
        raise NoInputError(f"configuration {found} is empty; to use the defaults, add a comment")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{found} line {line}: not UTF-8 text") from error
    return parse(text, found)


def find(path: str | None = None) -> str | None:
    """File that ``load`` reads, or None if the defaults apply."""
    named = path or os.environ.get(ENVIRONMENT)
    if named:
        return named
    return SYSTEM_PATH if os.path.exists(SYSTEM_PATH) else None


def parse(text: str, name: str = "configuration") -> Settings:
    """Settings from TOML ``text``; messages call it ``name``. Raises ConfigError."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: {error}") from error
    for path, known in schema.unknown_keys(document, schema.Kind(Settings)):
        raise ConfigError(f"{_place(name, text, path)}: unknown key{_suggestion(path[-1], known)}")
    try:
        settings = schema.convert(document, Settings)
    except schema.Mismatch as error:
        words = f"{_lower_first(str(error))}{_choices(error.path)}"
        raise ConfigError(f"{_place(name, text, error.path)}: {words}") from error
    for path, problem in _problems(settings, document):
        raise ConfigError(f"{_place(name, text, path)}: {problem}")
    return settings


def check_metrics(settings: Settings, known: Mapping[str, Collection[str]], name: str = "configuration") -> None:
    """Check every metric named in ``settings``. Raises ConfigError for an unknown one.

    ``known`` maps the resource sets of [probe] to their metrics. This
    package knows none, so commands that know them call this.
    """
    every = sorted({metric for metrics in known.values() for metric in metrics})
    probe = settings.probe
    named: list[tuple[str, list[str], Collection[str]]] = [
        (f"probe.{module}.metrics", getattr(probe, module).metrics, metrics)
        for module, metrics in known.items()
        if hasattr(probe, module)
    ]
    named.append(("filter.tau", list(settings.filter.tau), every))
    named += [(".".join(path), list(limits), every) for path, limits in _limits(settings)]
    for key, metrics, allowed in named:
        for metric in metrics:
            if metric not in allowed:
                raise ConfigError(f"{name}: key {key}: unknown metric {metric!r}{_suggestion(metric, allowed)}")


def check_kernels(settings: Settings, known: Collection[str], name: str = "configuration") -> None:
    """Check every kernel named in ``settings``. Raises ConfigError for one that is not ``known``.

    If the package with the filter is not installed, no kernel is known and none is refused.
    """
    for kernel in settings.filter.kernels:
        if known and kernel not in known:
            raise ConfigError(f"{name}: key filter.kernels: unknown kernel {kernel!r}{_suggestion(kernel, known)}")


KeyPath = tuple[str, ...]
_LIMITS_DEPTH = 3  #: depth of checks.CHECK.PARAMETER, which contains the limits by metric


def _choices(path: KeyPath) -> str:
    """Permitted words of a key that is limited to some."""
    kind = schema.of(path, Settings)
    return f"; expected one of {', '.join(map(str, kind.choices))}" if kind and kind.choices else ""


def _problems(settings: Settings, document: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Problems of the settings that the schema cannot express."""
    for path, number in _numbers(document, ()):
        if math.isnan(number) or (math.isinf(number) and not (path[0] == "checks" and len(path) > _LIMITS_DEPTH)):
            yield path, f"{number} is not a finite number"
    for address in settings.shards.addresses:
        try:
            parse_address(address)
        except ValueError as error:
            yield ("shards", "addresses"), str(error)
    bind, _, port = settings.serve.bind.rpartition(":")
    if not bind or not port.isdigit() or int(port) > 65535:
        yield ("serve", "bind"), f"invalid address {settings.serve.bind!r}: expected HOST:PORT"
    for pattern in settings.probe.processes.commands:
        try:
            re.compile(pattern)
        except re.error as error:
            yield ("probe", "processes", "commands"), f"invalid regular expression {pattern!r}: {error}"
    for path, limits in _limits(settings):
        for metric, (low, high) in limits.items():
            if low > high:
                yield (*path, metric), f"lower limit {low} exceeds upper limit {high}"
    yield from _too_long(settings.filter.inputs)
    yield from _misnamed_levels(settings)
    yield from _unplaced_benchmark(settings)
    yield from _no_changes(settings)
    for pid in settings.probe.processes.pids:
        if pid <= 0:
            yield ("probe", "processes", "pids"), f"invalid process id {pid}"


def _limits(settings: Settings) -> Iterator[tuple[KeyPath, dict[str, tuple[float, float]]]]:
    """Parameters of checks that are limits by metric."""
    for check in schema.fields(type(settings.checks)):
        table = getattr(settings.checks, check)
        for key in schema.fields(type(table)):
            if isinstance(getattr(table, key), dict):
                yield ("checks", check, key), getattr(table, key)


def _too_long(inputs: Inputs) -> Iterator[tuple[KeyPath, str]]:
    seconds, least = inputs.window_seconds, inputs.window_least
    for key in ("counted", "plateau"):
        if (length := getattr(inputs, f"{key}_seconds")) > seconds:
            yield ("filter", "inputs", f"{key}_seconds"), f"{length:g} exceeds the window of {seconds:g}"
        if (samples := getattr(inputs, f"{key}_least")) > least:
            yield ("filter", "inputs", f"{key}_least"), f"{samples} exceeds the {least} samples of the window"


def _misnamed_levels(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    try:
        log.levels(settings.log.levels)
    except ValueError as error:
        yield ("log", "levels"), str(error)


def _unplaced_benchmark(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    storage = settings.probe.storage
    if storage.enabled and not storage.path.startswith("/"):
        yield ("probe", "storage", "path"), "expected the absolute path of a directory"


def _no_changes(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    for metric, change in settings.regression.metrics.items():
        if not change:
            yield (
                ("regression", "metrics"),
                (f"{metric!r}: expected a non-zero change, negative if lower values are worse"),
            )
        if "." not in metric:
            yield ("regression", "metrics"), f"invalid metric {metric!r}: expected SET.METRIC"


def _numbers(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, path)
    elif isinstance(value, float):
        yield path, value


def _place(name: str, text: str, path: KeyPath) -> str:
    """``FILE line N: key a.b.c``, without the line if it is not found in the text."""
    if not path:
        return name
    line = _line_of(text, path)
    return f"{name}{f' line {line}' if line else ''}: key {'.'.join(path)}"


def _line_of(text: str, path: KeyPath) -> int | None:
    """Line that sets ``path``, found by table headers and keys as commonly written."""
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+([^\]]+)\]", line)
        if header:
            table = _split(header[1])
            if table == path:
                return number
            continue
        key, equals, _ = line.partition("=")
        here = (*table, *_split(key))
        if equals and here == path[: len(here)] and (here == path or "{" in line):
            return number
    return None


def _split(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in dotted.strip().split("."))


def _suggestion(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(known)}" if known else ""


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]
