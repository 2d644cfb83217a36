"""Column types: what Python has, as the engines have it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import BigInteger, Dialect, LargeBinary, SmallInteger, Text
from sqlalchemy.dialects.postgresql import ARRAY, REAL
from sqlalchemy.types import TypeDecorator, TypeEngine

from filters.archive.minutes.escape import escape, signed, unescape, unsigned


class Unsigned(TypeDecorator[int]):
    """An unsigned 64-bit id as the signed bigint of the same bits."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """To SQL."""
        return None if value is None else signed(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        """From SQL."""
        return None if value is None else unsigned(value)


class Name(TypeDecorator[str]):
    """Any text, escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """To SQL."""
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """From SQL."""
        return None if value is None else unescape(value)


class Json(TypeDecorator[Any]):
    """What JSON can hold, as text, since both engines read that."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """To SQL."""
        return None if value is None else dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """From SQL."""
        return None if value is None else json.loads(value)


class Array(TypeDecorator[npt.NDArray[Any]]):
    """A row of numbers: an array in PostgreSQL, in SQLite the little-endian bytes."""

    impl = LargeBinary
    cache_ok = True

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code  #: numpy's: f4, i2, i8

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The type of the engine."""
        return dialect.type_descriptor(ARRAY(_ELEMENTS[self.code]()) if dialect.name == "postgresql" else LargeBinary())

    def process_bind_param(self, value: npt.NDArray[Any] | None, dialect: Dialect) -> Any:
        """To SQL."""
        if value is None:
            return None
        return value.ravel().tolist() if dialect.name == "postgresql" else value.astype(f"<{self.code}").tobytes()

    def process_result_value(self, value: Any, dialect: Dialect) -> npt.NDArray[Any] | None:
        """From SQL: one dimension, read-only."""
        if value is None:
            return None
        return np.array(value, self.code) if dialect.name == "postgresql" else np.frombuffer(value, f"<{self.code}")


_ELEMENTS: dict[str, type[TypeEngine[Any]]] = {"f4": REAL, "i2": SmallInteger, "i8": BigInteger}


def dumps(value: Any) -> str:
    """JSON in ASCII without NaN (null in its place), which ``jsonb`` and ``json_each`` take."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
