"""The guest behind a qemu process: name, uuid, vCPUs and memory from its command line.

qemu(1): ``-name guest=NAME`` or ``-name NAME``, ``-uuid UUID``, ``-smp CPUS`` or
``-smp cpus=,sockets=,cores=,threads=``, ``-m SIZE`` or ``-m size=SIZE`` (mebibytes unless
a suffix says otherwise). In option lists a comma inside a value is doubled. ``-incoming`` makes a
process wait for a migration; ``-accel``, ``-enable-kvm`` and ``-machine accel=`` say what runs the guest.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import NamedTuple

from probes.procfs import read_once

_SUFFIXES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DEFAULT_MEMORY = 128 << 20  # qemu(1), -m
_PROGRAMS = ("qemu-system-", "qemu-kvm", "kvm")
_COMMA = "\0"


class Guest(NamedTuple):
    """A virtual machine as its command line describes it; ``uuid`` may be empty, and so is ``accelerator``
    where several or none are named. ``incoming``: the process was started to receive a migration."""

    name: str
    uuid: str
    vcpus: int
    memory_bytes: int
    accelerator: str = ""
    incoming: bool = False


def may_be_qemu(command: str) -> bool:
    """Whether a command name (15 characters at most) is worth reading its command line."""
    return command.startswith(("qemu", "kvm", "CPU "))


def parse(arguments: list[str]) -> Guest | None:
    """The guest of a command line, None when it is no virtual machine's."""
    if not arguments or not os.path.basename(arguments[0]).startswith(_PROGRAMS):
        return None
    values: dict[str, str] = {}
    for option, value in pairwise(arguments):
        if option.startswith("-"):
            values["-" + option.lstrip("-")] = value  # -name and --name are the same
    name = _options(values.get("-name", ""), "guest").get("guest", "")
    return Guest(
        name,
        values.get("-uuid", "").lower(),  # the same VM on every host, however it is written (RFC 9562, section 4)
        _vcpus(values.get("-smp", "")),
        _memory(values.get("-m", "")),
        _accelerator(arguments),
        "-incoming" in values,
    )


def _accelerator(arguments: list[str]) -> str:
    """``kvm``, ``tcg`` … where exactly one is named: of a list qemu takes the first that the host has."""
    named: set[str] = set()
    for word, value in pairwise((*arguments, "")):
        option = "-" + word.lstrip("-") if word.startswith("-") else ""
        if option == "-enable-kvm":
            named.add("kvm")
        elif option == "-accel":
            named.add(_options(value, "accel").get("accel", ""))
        elif option in ("-machine", "-M"):
            named.update(_options(value, "type").get("accel", "").split(":"))
    named.discard("")
    return named.pop() if len(named) == 1 else ""


def _options(text: str, first: str) -> dict[str, str]:
    """``a=1,b=2`` as a dict; the first part may lack its key, which is then ``first``."""
    found = {}
    for place, part in enumerate(text.replace(",,", _COMMA).split(",")):
        key, equals, value = part.partition("=")
        if not equals and place == 0:
            key, value = first, part
        found[key] = value.replace(_COMMA, ",")
    return found


def _vcpus(text: str) -> int:
    options = _options(text, "cpus")
    if _number(options.get("cpus", "")):
        return _number(options["cpus"])
    count = 1
    for level in ("sockets", "dies", "clusters", "cores", "threads"):
        count *= _number(options.get(level, "")) or 1
    return count


def _memory(text: str) -> int:
    size = _options(text, "size").get("size", "").strip().lower()
    digits = size.rstrip("bkmgt")
    suffix = size[len(digits) :] or "m"
    try:
        return int(float(digits) * _SUFFIXES[suffix])
    except (ValueError, KeyError, OverflowError):
        return _DEFAULT_MEMORY if not size else 0


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def taps(proc: str, pid: int) -> list[str]:
    """The tap interfaces that a process holds open, by the ``iff:`` lines of its /dev/net/tun descriptors.

    Empty when there are none or they may not be looked at.
    """
    found = []
    base = f"{proc}/{pid}"
    try:
        numbers = os.listdir(f"{base}/fd")
    except OSError:
        return []
    for number in numbers:
        try:
            if not os.readlink(f"{base}/fd/{number}").endswith("/net/tun"):
                continue
            for line in read_once(f"{base}/fdinfo/{number}").splitlines():
                key, _, value = line.partition(b":")
                if key == b"iff" and value.strip():
                    found.append(value.strip().decode("ascii", "replace"))
        except OSError:
            continue
    return sorted(set(found))
