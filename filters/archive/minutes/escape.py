"""Escapes for text and ids that SQL cannot represent.

PostgreSQL's text cannot contain NUL, no encoding has lone surrogates (from names that are not UTF-8), and no engine
has unsigned 64-bit integers. The escape is SUB (U+001A) and four hexadecimal digits; SUB itself is escaped too.
"""

from __future__ import annotations

import re

from acquisition.model.identity import identity

_ESCAPED = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPE = re.compile("\x1a([0-9a-f]{4})")
_WRAP = 1 << 64
_LARGEST = (1 << 63) - 1


def escape(text: str) -> str:
    """Text accepted by both engines; unchanged if nothing needs escaping."""
    if text.isascii() and "\0" not in text and "\x1a" not in text:
        return text
    return _ESCAPED.sub(lambda found: f"\x1a{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    """Inverse of ``escape``."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text) if "\x1a" in text else text


def signed(number: int) -> int:
    """The signed number with the bits of an unsigned 64-bit one."""
    return number - _WRAP if number > _LARGEST else number


def unsigned(number: int) -> int:
    """Inverse of ``signed``."""
    return number % _WRAP


def text_hash(text: str) -> int:
    """Hash for looking up a long text: an index entry has at most 2,704 bytes. Signed."""
    return signed(identity("text", escape(text)))
