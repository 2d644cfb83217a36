"""JSON of documents: a number that is not there is null, a name that is no text does no harm."""

from __future__ import annotations

from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder()


def encode(document: Any) -> bytes:
    """UTF-8 JSON (RFC 8259); NaN and infinite become null.

    A command line may hold any byte; what is no UTF-8 travels as lone surrogates, which JSON cannot
    carry: they become question marks.
    """
    try:
        return _ENCODER.encode(document)
    except UnicodeEncodeError:
        return _ENCODER.encode(_clean(msgspec.to_builtins(document)))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list) else value
