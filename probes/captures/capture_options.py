"""Qemu options kept in a capture: those that describe the VM.

All others become ``…``.

Command lines of qemu contain secrets: passwords of disks and displays, keys of ``-object secret``, configuration of the
guest in ``-fw_cfg`` and ``-append``. So only options named in the tables here are kept.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

HIDDEN = "…"
_COMMA = "\0"
#: Options without a value.
_FLAGS = frozenset(
    {"-S", "-daemonize", "-enable-kvm", "-mem-prealloc", "-no-shutdown", "-no-user-config", "-nodefaults", "-nographic"}
)
#: Options of which only the name is kept.
_OPAQUE = frozenset(
    {
        "-append", "-blockdev", "-boot", "-cdrom", "-chardev", "-display", "-drive", "-fw_cfg", "-hda", "-incoming",
        "-kernel", "-monitor", "-net", "-netdev", "-nic", "-qmp", "-serial", "-spice", "-vnc",
    }
)  # fmt: skip
#: Option -> keys with values to keep; "" is a value without a key, in first place.
_KEYS: dict[str, frozenset[str]] = {
    option: frozenset(("", *keys.split()))
    for option, keys in {
        "-M": "type accel memory-backend",
        "-accel": "accel",
        "-cpu": "",
        "-device": "driver id memdev node size requested-size block-size socket-id die-id core-id thread-id",
        "-id": "",
        "-m": "size slots maxmem",
        "-machine": "type accel memory-backend",
        "-mem-path": "",
        "-name": "guest process debug-threads",
        "-numa": "nodeid cpus mem memdev",
        "-object": "qom-type id size share prealloc hugetlb hugetlbsize mem-path",
        "-readconfig": "",
        "-smbios": "type uuid manufacturer product family",
        "-smp": "cpus maxcpus sockets dies clusters modules cores threads",
        "-uuid": "",
    }.items()
}
#: Of these options only objects and devices that are vCPUs or memory are kept.
_KINDS = {
    "-object": re.compile(r"memory-backend-[\w-]+"),
    "-device": re.compile(r"[\w.-]+-cpu|pc-dimm|nvdimm|virtio-(mem|pmem)[\w-]*"),
}
#: Sections of a configuration file with another name than their option.
_SECTIONS = {"memory": "-m", "smp-opts": "-smp"}
_SECTION = re.compile(r'\s*\[\s*([\w-]+)(?:\s+"(.*)")?\s*\]\s*')
_SETTING = re.compile(r'\s*([\w.-]+)\s*=\s*"(.*)"\s*')
_NAMES = {("-name", ""), ("-name", "guest"), ("-name", "process")}
_PATHS = {("-mem-path", ""), ("-object", "mem-path"), ("-readconfig", "")}
_PROGRAM = re.compile(r"[\w./+-]*")

Rename = Callable[[str], str]


def is_qemu(program: str, arguments: list[str]) -> bool:
    """Whether a process may be qemu, by its executable and argv[0]. ``program`` is the link in /proc/PID/exe, or ""."""
    names = [os.path.basename(name) for name in (program, *arguments[:1])]
    return any("qemu" in name or "kvm" in name for name in names)


def kept(arguments: list[str], rename: Rename | None = None) -> list[str]:
    """As many words as ``arguments``: those that may be shown, and ``…`` for the others. ``rename`` replaces names of
    virtual machines, and in paths."""
    return list(_kept(arguments, rename))


def configuration_file(arguments: list[str]) -> str:
    """File named by ``-readconfig``, if it may be read: never a device or a pipe. "" without one."""
    path = next((value for option, value in pairwise(arguments) if option.lstrip("-") == "readconfig"), "")
    return path if path.startswith("/") and not path.startswith(("/dev/", "/proc/")) else ""


def kept_configuration(text: str, rename: Rename | None = None) -> str:
    """Sections and settings of a qemu configuration file that ``kept`` would keep as options."""
    kept_lines: list[str] = []
    option = ""
    settings: dict[str, str] = {}
    for line in [*text.splitlines(), "[end]"]:
        section, setting = _SECTION.fullmatch(line), _SETTING.fullmatch(line)
        if setting is not None:
            settings[setting[1]] = setting[2]
        elif section is not None:
            kept_lines += _section(option, settings, rename)
            option = _SECTIONS.get(section[1], f"-{section[1]}")
            settings = {"id": section[2]} if section[2] else {}
    return "".join(f"{line}\n" for line in kept_lines)


def _section(option: str, settings: dict[str, str], rename: Rename | None) -> list[str]:
    kind = settings.get("driver", settings.get("qom-type", ""))
    if option not in _KEYS or (option in _KINDS and not _KINDS[option].fullmatch(kind)):
        return []
    name = next((section for section, each in _SECTIONS.items() if each == option), option[1:])
    title = f'[{name} "{settings["id"]}"]' if "id" in settings else f"[{name}]"
    shown = {key: _shown(option, key, value, rename) for key, value in settings.items() if key in _KEYS[option]}
    return [title, *(f'{key} = "{value}"' for key, value in shown.items() if key != "id")]


def _kept(arguments: list[str], rename: Rename | None) -> Iterator[str]:
    words = iter(arguments)
    for program in words:
        yield program if _PROGRAM.fullmatch(program) else HIDDEN
        break
    for word in words:
        option = "-" + word.lstrip("-") if word.startswith("-") else ""
        if option in _FLAGS:
            yield option
        elif option in _KEYS or option in _OPAQUE:
            yield option
            for value in words:
                yield HIDDEN if option in _OPAQUE else _value(option, value, rename)
                break
        else:
            yield HIDDEN


def _value(option: str, value: str, rename: Rename | None) -> str:
    if value.startswith("{"):
        return _json_value(option, value, rename)
    parts = [part.replace(_COMMA, ",,") for part in value.replace(",,", _COMMA).split(",")]
    kind = parts[0].rpartition("=")[2]
    if option in _KINDS and not _KINDS[option].fullmatch(kind):
        return HIDDEN
    return ",".join(_part(option, part, rename, first=place == 0) for place, part in enumerate(parts))


def _part(option: str, part: str, rename: Rename | None, first: bool) -> str:
    key, equals, value = part.partition("=") if "=" in part else ("", "", part)
    if key not in _KEYS[option] or not (equals or first):
        return HIDDEN
    return f"{key}{equals}{_shown(option, key, value, rename)}"


def _json_value(option: str, text: str, rename: Rename | None) -> str:
    """Options of libvirt 7 and later: an object of JSON in place of a list."""
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return HIDDEN
    kind = found.get("driver", found.get("qom-type", ""))
    if option not in _KINDS or not isinstance(kind, str) or not _KINDS[option].fullmatch(kind):
        return HIDDEN
    shown = {
        key: _shown(option, key, value, rename) if isinstance(value, str) else value
        for key, value in found.items()
        if key in _KEYS[option] and isinstance(value, (str, int, float, bool))
    }
    return json.dumps(shown, separators=(",", ":"))


def _shown(option: str, key: str, value: str, rename: Rename | None) -> str:
    if rename is not None and (option, key) in _NAMES:
        return rename(value)
    return shown_path(value, rename) if (option, key) in _PATHS else value


def shown_path(path: str, rename: Rename | None) -> str:
    """A path as shown in a capture: below its first two directories all names are replaced."""
    parts = path.split("/")
    return "/".join([*parts[:3], *map(rename, parts[3:])]) if rename is not None else path
