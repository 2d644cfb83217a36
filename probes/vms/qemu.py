"""Qemu guest: name, uuid, owner, vCPUs and memory, from its command line.

They are read from the executable and its options.

qemu(1): ``-name guest=NAME`` or ``-name NAME``, ``-uuid UUID`` or ``-smbios type=1,uuid=UUID``, ``-smp
cpus=,maxcpus=,sockets=,cores=,threads=``, ``-m size=SIZE`` (mebibytes without a suffix), and devices
added to these: ``-device MODEL-cpu``, ``-device pc-dimm,memdev=ID`` or ``virtio-mem`` with its ``-object
memory-backend-*,id=ID,size=SIZE``. ``-incoming`` makes a process wait for a migration; ``-accel``, ``-enable-kvm`` and
``-machine accel=`` name what runs the guest. Anything these leave unknown is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from probes.vms.owners import NOBODY, Owner, owner_of
from probes.vms.qemu_options import Fields, Options, bytes_of, number_of, product, sections_of, values_of

#: Names of the executable. NixOS wraps programs (``.NAME-wrapped``), OpenNebula and forks add their own word, and
#: the suffix added by the kernel or a package manager to a replaced one begins with one of ``.; ``.
_PROGRAM = re.compile(
    r"\.?(?:qemu(?:-\w+)*-system-[\w-]+|qemu-kvm(?:-\w+)*|kvm(?:-spice)?|qemu)(?:-wrapped)?(?:[.; ].*)?", re.DOTALL
)
#: A process with a machine has at least one of these; one that answers a question (``--version``) has none.
_OF_A_MACHINE = frozenset((
    "machine", "M", "m", "smp", "cpu", "name", "uuid", "smbios", "accel", "enable-kvm", "drive", "blockdev", "device",
    "hda", "hdb", "hdc", "hdd", "cdrom", "fda", "pflash", "kernel", "initrd", "append", "bios", "boot", "readconfig",
    "netdev", "net", "nic", "nographic", "display", "vnc", "spice", "vga", "S", "incoming", "loadvm", "snapshot",
    "nodefaults", "no-user-config", "daemonize", "runas", "object", "numa", "global", "monitor", "mon", "qmp",
    "chardev", "serial", "rtc", "no-reboot", "no-shutdown", "pidfile", "sandbox", "usb", "usbdevice", "overcommit",
    "mem-path", "mem-prealloc", "id", "virtfs", "fsdev", "tpmdev",
))  # fmt: skip
_DEFAULT_MEMORY = 128 << 20  # qemu(1), -m
#: Machines with that default, and with one vCPU unless an option says otherwise. Other boards may differ.
_PLAIN = re.compile(r"(?:pc|q35|microvm|virt|isapc|s390-ccw-virtio)(?:[-+].*)?")
_PLAIN_PROGRAM = re.compile(r".*(?:x86_64|i386|kvm)[^/]*", re.DOTALL)  # without -machine they make a pc
_LEVELS = ("drawers", "books", "sockets", "dies", "clusters", "modules", "cores", "threads")
_MEMORY_DEVICES = ("pc-dimm", "virtio-mem")
_UUID = re.compile(r"[0-9a-f-]+")


class Guest(NamedTuple):
    """A virtual machine as described by its options; ``uuid`` may be empty, and so is ``accelerator`` if several or
    none are named.

    ``vcpus`` and ``memory_bytes`` are those at its start, None if unknown; it may now have up to ``most_vcpus``.
    ``incoming``: the process was started to receive a migration."""

    name: str
    uuid: str
    vcpus: int | None
    most_vcpus: int | None
    memory_bytes: int | None
    accelerator: str = ""
    incoming: bool = False
    owner: Owner = NOBODY


def is_qemu(path: str) -> bool:
    """Whether an executable, or the first word of a command line, is a qemu that runs machines."""
    return _PROGRAM.fullmatch(path.rpartition("/")[2]) is not None


def no_file(_path: str) -> str | None:
    """Never read a configuration file."""
    return None


def parse(arguments: Sequence[str], program: str = "", read: Callable[[str], str | None] = no_file) -> Guest | None:
    """The guest of a command line, None if it is not a virtual machine's.

    ``program`` is the executable, by default the first word; ``read`` returns the text of a configuration
    file, None if it cannot be read."""
    program = program or (arguments[0] if arguments else "")
    if not is_qemu(program):
        return None
    values = values_of(arguments)
    if _OF_A_MACHINE.isdisjoint(values):
        return None
    options = _with_files(values, read)
    machine = {**options.merged("machine", "type"), **options.merged("M", "type")}
    kind = machine.get("type", "")
    if kind == "none":  # libvirt queries the abilities of this qemu
        return None
    plain = not options.unread and bool(_PLAIN.fullmatch(kind) if kind else _PLAIN_PROGRAM.fullmatch(program))
    smp = options.merged("smp", "cpus") | _under("smp.", machine)
    name, uuid = options.merged("name", "guest").get("guest", ""), _uuid(options)
    owner = owner_of(options, name, arguments)
    return Guest(
        owner.title or name,
        uuid,
        *_vcpus(smp, options, plain),
        _memory(options.merged("m", "size") | _under("memory.", machine), options, plain),
        _accelerator(options, machine),
        "incoming" in values,
        owner,
    )


def _with_files(values: dict[str, list[str]], read: Callable[[str], str | None]) -> Options:
    sections: dict[str, list[Fields]] = {}
    unread = False
    for path in values.get("readconfig", ()):
        text = read(path)
        unread |= text is None
        for name, found in sections_of(text or "").items():
            sections.setdefault(name, []).extend(found)
    return Options(values, sections, unread)


def _under(prefix: str, fields: Fields) -> Fields:
    """Options of the machine that ``-smp`` and ``-m`` abbreviate (``smp.cpus``, ``memory.size``)."""
    return {key[len(prefix) :]: value for key, value in fields.items() if key.startswith(prefix)}


def _uuid(options: Options) -> str:
    """In lower case, the same on every host for any spelling (RFC 9562, section 4); "" without one."""
    given = [fields.get("uuid", "") for fields in options.all("smbios", "file") if fields.get("type") == "1"]
    found = (options.last("uuid") or next(filter(None, reversed(given)), "")).strip().lower()
    return found if _UUID.fullmatch(found) and found.strip("0-") else ""


def _accelerator(options: Options, machine: Fields) -> str:
    """``kvm``, ``tcg`` … if exactly one is named: of a list qemu takes the first that the host has."""
    named = {fields.get("accel", "") for fields in options.all("accel", "accel")} | set(
        machine.get("accel", "").split(":")
    )
    if "enable-kvm" in options.values:
        named.add("kvm")
    named.discard("")
    return named.pop() if len(named) == 1 else ""


def _vcpus(smp: Fields, options: Options, plain: bool) -> tuple[int | None, int | None]:
    """Number of vCPUs at the start of the guest, and its maximum."""
    given = {key: number_of(smp[key]) for key in ("cpus", "maxcpus", *_LEVELS) if smp.get(key)}
    numbers = {key: number for key, number in given.items() if number}
    if len(numbers) < len(given) or not (numbers or plain):
        return None, None
    most = numbers.get("maxcpus") or numbers.get("cpus") or product(numbers.get(key, 1) for key in _LEVELS)
    count = numbers.get("cpus", most)
    for device in options.all("device", "driver"):
        driver = device.get("driver", "")
        if driver.endswith("-cpu-core"):  # of a pseries machine
            count += numbers.get("threads", 1)
        elif driver.endswith("-cpu"):
            count += 1
    return min(count, most), most


def _memory(memory: Fields, options: Options, plain: bool) -> int | None:
    """Bytes: the memory of ``-m`` and of all memory devices. Those plugged in since are not known."""
    first = bytes_of(memory["size"], "m") if memory.get("size") else _DEFAULT_MEMORY if plain else None
    backends = {each.get("id", ""): bytes_of(each.get("size", ""), "b") for each in options.all("object", "qom-type")}
    parts = [first or None]
    for device in options.all("device", "driver"):
        if device.get("driver", "").startswith(_MEMORY_DEVICES):
            parts.append(backends.get(device.get("memdev", "")))
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
