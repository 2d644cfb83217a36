"""The configuration as commented TOML: the reference that ``shardpulse config`` prints.

It is made from the schema, so it names every key, and it reads back as the same settings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import inspect as schema

from acquisition.config.settings import Settings

_WIDTH = 100


def render(settings: Settings, choices: Mapping[str, Sequence[str]] = MappingProxyType({})) -> str:
    """All tables of ``settings`` with what each key means, what it may be and what it is; ``choices`` are the
    names that packages have registered, by key."""
    head = [
        "# shardpulse.toml: every key with its value; a key that is left out has its default.",
        "# Looked for: --config FILE, $SHARDPULSE_CONFIG, /etc/shardpulse/shardpulse.toml.",
        "# SIGHUP makes probe and filter read it again; a file with an error changes nothing.",
    ]
    return "\n".join([*head, *_table("", settings, choices)]) + "\n"


def document(settings: Settings) -> dict[str, Any]:
    """The settings as plain dicts, lists and values, for JSON."""
    built: dict[str, Any] = msgspec.to_builtins(settings)
    return built


def _table(name: str, value: msgspec.Struct, choices: Mapping[str, Sequence[str]]) -> Iterator[str]:
    kind = schema.type_info(type(value))
    assert isinstance(kind, schema.StructType)
    inner = []
    if name:
        yield ""
        yield from _comment(_first_paragraph(type(value).__doc__ or ""))
        yield f"[{name}]"
    for field in kind.fields:
        member = getattr(value, field.name)
        key = f"{name}.{field.name}" if name else field.name
        if isinstance(member, msgspec.Struct):
            inner.append((key, member))
            continue
        yield from _comment(_description(field.type, choices.get(key, ())))
        yield f"{field.name} = {_toml(member)}"
    for path, member in inner:
        yield from _table(path, member, choices)


def _description(kind: schema.Type, choices: Sequence[str]) -> str:
    text = ""
    if isinstance(kind, schema.Metadata):
        text = (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    limits = " | ".join(map(json.dumps, choices)) or _limits(kind)
    return f"{text} ({limits})" if limits else text


def _limits(kind: schema.Type) -> str:
    """What a value may be, in words: ``"a" | "b"``, ``> 0``, ``0 to 1``."""
    if isinstance(kind, schema.LiteralType):
        return " | ".join(json.dumps(value) for value in kind.values)
    if not isinstance(kind, schema.IntType | schema.FloatType):
        return ""
    words = []
    if kind.gt is not None:
        words.append(f"> {_number(kind.gt)}")
    if kind.ge is not None:
        words.append(f">= {_number(kind.ge)}")
    if kind.le is not None:
        words.append(f"<= {_number(kind.le)}")
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
        # JSON's escapes are TOML's too, except that TOML has no surrogates and wants DEL escaped
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
