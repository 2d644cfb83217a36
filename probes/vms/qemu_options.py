"""Qemu options: parsed from the command line and the configuration file.

qemu(1): ``-option value`` or ``--option value``, a value being ``a=1,b=2`` (the first key may be left out, a comma
inside a value is doubled) or, for ``-device`` and ``-object``, a JSON object. ``-readconfig FILE`` contains the same in
sections: ``[memory]``, ``[smp-opts]``, ``[object "mem0"]``, ``key = "value"``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Fields = dict[str, str]

_COMMA = "\0"
#: Options with a value of any text, even one that begins with a hyphen.
_TEXTS = frozenset(("append", "name", "fw_cfg", "smbios", "acpitable", "kernel", "initrd", "D"))
#: Names of sections that differ from their options.
_SECTIONS = {"m": "memory", "smp": "smp-opts"}
_SECTION = re.compile(r'\[\s*([\w-]+)(?:\s+"(.*)")?\s*\]')
_SETTING = re.compile(r'([\w.-]+)\s*=\s*"(.*)"')


class Options(NamedTuple):
    """``values`` are those of each option in order, without hyphens before its name; ``sections`` are those of
    the configuration file. ``unread``: there is such a file, but it could not be read."""

    values: dict[str, list[str]]
    sections: Mapping[str, list[Fields]] = {}
    unread: bool = False

    def all(self, option: str, first: str) -> list[Fields]:
        """Every occurrence of an option, those of the configuration file first; ``first`` is the key that may be left
        out."""
        given = self.sections.get(_SECTIONS.get(option, option), [])
        return [*given, *(fields_of(text, first) for text in self.values.get(option, ()))]

    def merged(self, option: str, first: str) -> Fields:
        """All occurrences of an option in one: a later one may change single keys in qemu."""
        return {key: value for fields in self.all(option, first) for key, value in fields.items()}

    def last(self, option: str) -> str:
        """Raw last value of an option, "" without any."""
        return self.values.get(option, [""])[-1]


def values_of(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Options of a command line (its first word is the program) with their values, "" for one without."""
    found: dict[str, list[str]] = {}
    place = 1
    while place < len(arguments):
        word, place = arguments[place], place + 1
        option = word.lstrip("-") if word.startswith("-") else ""
        if not option:
            continue
        value = ""
        if place < len(arguments) and (option in _TEXTS or not _is_option(arguments[place])):
            value, place = arguments[place], place + 1
        found.setdefault(option, []).append(value)
    return found


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def sections_of(text: str) -> dict[str, list[Fields]]:
    """Sections of a configuration file by name; anything other than sections and settings is ignored."""
    found: dict[str, list[Fields]] = {}
    fields: Fields = {}
    for line in text.splitlines():
        section, setting = _SECTION.fullmatch(line.strip()), _SETTING.fullmatch(line.strip())
        if section is not None:
            fields = {"id": section[2]} if section[2] else {}
            found.setdefault(section[1], []).append(fields)
        elif setting is not None:
            fields[setting[1]] = setting[2]
    return found


def fields_of(text: str, first: str) -> Fields:
    """``a=1,b=2`` or a JSON object as a dict of texts; the first part may lack its key, which is then ``first``."""
    if text.startswith("{"):
        return _of_json(text)
    found = {}
    for place, part in enumerate(text.replace(",,", _COMMA).split(",")):
        key, equals, value = part.partition("=")
        if not equals and place == 0:
            key, value = first, part
        found[key] = value.replace(_COMMA, ",")
    return found


def _of_json(text: str) -> Fields:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {key: str(value) for key, value in document.items()}


_SIZE = re.compile(r"(\d{1,18})(\.\d{1,18})?([bkmgtpe]?)", re.ASCII)
_SUFFIXES = "bkmgtpe"


def bytes_of(text: str, unit: str) -> int | None:
    """Size in bytes; ``unit`` is the default suffix. None if it is not a size."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        return None
    scale = 1 << 10 * _SUFFIXES.index(found[3] or unit)
    return int(found[1]) * scale + int(float(found[2] or 0) * scale)


def number_of(text: str) -> int | None:
    """The whole number in a text, None for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


def product(numbers: Iterable[int]) -> int:
    """Product of numbers, 1 without any."""
    found = 1
    for number in numbers:
        found *= number
    return found
