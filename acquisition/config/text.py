"""Configuration as commented TOML, as printed by ``shardpulse config``.

It is generated from the schema, so it names every key, and it reads back as the same settings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from acquisition.config import schema
from acquisition.config.settings import Settings

_WIDTH = 100


def render(settings: Settings, choices: Mapping[str, Sequence[str]] = MappingProxyType({})) -> str:
    """All tables of ``settings`` with meaning, permitted values and value of each key; ``choices`` are the names
    registered by packages, by key."""
    head = [
        "# shardpulse.toml: all keys with their values; an omitted key has its default.",
        "# Search order: --config FILE, $SHARDPULSE_CONFIG, /etc/shardpulse/shardpulse.toml.",
        "# On SIGHUP, probe and filter reload the file, serve [log] and labels, archive [log]; errors change nothing.",
    ]
    return "\n".join([*head, *_table("", settings, choices)]) + "\n"


def document(settings: Settings) -> dict[str, Any]:
    """The settings as plain dicts, lists and values, for JSON."""
    return asdict(settings)


def _table(name: str, value: schema.Table, choices: Mapping[str, Sequence[str]]) -> Iterator[str]:
    inner = []
    if name:
        yield ""
        yield from _comment(_first_paragraph(type(value).__doc__ or ""))
        yield f"[{name}]"
    for field, kind in schema.fields(type(value)).items():
        member = getattr(value, field)
        key = f"{name}.{field}" if name else field
        if isinstance(member, schema.Table):
            inner.append((key, member))
            continue
        yield from _comment(_description(kind, choices.get(key, ())))
        yield f"{field} = {_toml(member)}"
    for path, member in inner:
        yield from _table(path, member, choices)


def _description(kind: schema.Kind, choices: Sequence[str]) -> str:
    text = kind.limits.description
    limits = " | ".join(map(json.dumps, choices)) or _limits(kind)
    return f"{text} ({limits})" if limits else text


def _limits(kind: schema.Kind) -> str:
    """Permitted values in words: ``"a" | "b"``, ``> 0``, ``0 to 1``."""
    if kind.choices:
        return " | ".join(map(json.dumps, kind.choices))
    bounds = {">": kind.limits.gt, ">=": kind.limits.ge, "<=": kind.limits.le}
    words = [f"{sign} {_number(bound)}" for sign, bound in bounds.items() if bound is not None]
    return ", ".join(words)


def _comment(text: str) -> Iterator[str]:
    line = "#"
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH and line != "#":
            yield line
            line = "#"
        line += f" {word}"
    if line != "#":
        yield line


def _toml(value: object) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        # JSON escapes are valid in TOML, except that TOML has no surrogates and requires DEL to be escaped
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        pairs = (f"{_key(str(key))} = {_toml(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    assert isinstance(value, list | tuple)
    return f"[{', '.join(_toml(inner) for inner in value)}]"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _number(value: int | float) -> str:
    return repr(value)


def _first_paragraph(text: str) -> str:
    return text.strip().split("\n\n")[0]
