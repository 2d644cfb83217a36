"""From what a terminal sends to names of keys (xterm's control sequences; ECMA-48, console_codes(4))."""

from __future__ import annotations

import re

_NAMED = {
    b"\r": "enter", b"\n": "enter", b"\t": "tab", b" ": "space", b"\x7f": "backspace", b"\x08": "backspace",
    b"\x03": "interrupt", b"\x15": "erase", b"\x02": "ctrl-b", b"\x06": "ctrl-f", b"\x0c": "redraw",
}  # fmt: skip
_SEQUENCES = {
    b"A": "up", b"B": "down", b"C": "right", b"D": "left", b"H": "home", b"F": "end", b"M": "enter",
    b"1~": "home", b"7~": "home", b"4~": "end", b"8~": "end", b"5~": "page-up", b"6~": "page-down",
}  # fmt: skip
_ESCAPE = b"\x1b"
#: CSI or SS3, parameters, a final byte.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[0-9;]*[@-~])")
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O[0-9;]*)?")
_LONGEST_SEQUENCE = 32


def decode(data: bytes, final: bool = False) -> tuple[list[str], bytes]:
    """The keys in ``data`` and what is left because more may belong to it; ``final``: nothing more comes.

    Characters are their own names; sequences that no key here sends are left out.
    """
    keys: list[str] = []
    while data:
        key, size = _first(data, final)
        if not size:
            break
        if key:
            keys.append(key)
        data = data[size:]
    return keys, data


def _first(data: bytes, final: bool) -> tuple[str, int]:
    """Name ("" for none) and size of the first key; size 0: it is not whole yet."""
    if data.startswith(_ESCAPE):
        found = _SEQUENCE.match(data)
        if found:
            return _SEQUENCES.get(_essence(found[0]), ""), found.end()
        unfinished = _UNFINISHED.fullmatch(data)
        if unfinished and not final and len(data) < _LONGEST_SEQUENCE:
            return "", 0
        return "escape", 1
    byte = data[:1]
    if byte in _NAMED:
        return _NAMED[byte], 1
    size = _utf8_size(byte[0])
    if len(data) < size and not final:
        return "", 0
    text = data[:size].decode("utf-8", "ignore")
    return (text, size) if len(text) == 1 and text.isprintable() else ("", 1)


def _essence(sequence: bytes) -> bytes:
    """The sequence without its introducer and without what shift and control add (``1;5A`` is ``A``)."""
    body = sequence[2:]
    if sequence[1:2] == b"[" and body.endswith(b"M"):
        return b""  # a mouse; the keypad's Enter is SS3 M
    number, _, _ = body[:-1].partition(b";")
    return number + body[-1:] if body.endswith(b"~") else body[-1:]


def _utf8_size(byte: int) -> int:
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
