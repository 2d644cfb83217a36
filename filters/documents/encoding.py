"""JSON encoding: null for absent numbers, escapes for names that are not text."""

from __future__ import annotations

import io
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder()
_WORD = secrets.token_hex(16)


def encode(document: Any) -> bytes:
    """UTF-8 JSON (RFC 8259); NaN and infinity become null.

    A command line may contain any byte; bytes that are not UTF-8 are held as lone surrogates, which JSON cannot
    represent: they become question marks.
    """
    try:
        return _ENCODER.encode(document)
    except UnicodeEncodeError:
        return _ENCODER.encode(_clean(msgspec.to_builtins(document)))


def encode_long(document: msgspec.Struct | Mapping[str, Any], *names: str) -> bytes:
    """Like ``encode``, with the elements of the lists ``names`` one by one; absent lists are skipped.

    One call for megabytes would hold the interpreter for tens of milliseconds and delay all other answers. So would
    freeing them at once: the lists are emptied while they are written.
    """
    fields = msgspec.structs.asdict(document) if isinstance(document, msgspec.Struct) else document
    lists = {name: fields[name] for name in names if isinstance(fields.get(name), list)}
    whole = head = encode(_replaced(document, {name: _place(name) for name in lists}))
    text = io.BytesIO()
    for name in sorted(lists, key=lambda each: whole.find(encode(_place(each)))):
        before, _, head = head.partition(encode(_place(name)))
        text.write(before)
        _write_list(text, lists[name])
    text.write(head)
    return text.getvalue()


def encode_around(document: msgspec.Struct, name: str, inner: bytes) -> bytes:
    """Like ``encode``, with previously encoded JSON as the value of ``name``."""
    before, _, after = encode(_replaced(document, {name: _place(name)})).partition(encode(_place(name)))
    return b"".join((before, inner, after))


def _write_list(text: io.BytesIO, elements: list[Any]) -> None:
    elements.reverse()
    before = b"["
    while elements:
        text.write(before + encode(elements.pop()))
        before = b","
    text.write(b"]" if before == b"," else b"[]")


def _replaced(document: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(document, msgspec.Struct):
        return msgspec.structs.replace(document, **values)
    return {**document, **values}


def _place(name: str) -> str:
    """Unguessable placeholder of a value in the surrounding text."""
    return f"{_WORD}{name}"


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list) else value
