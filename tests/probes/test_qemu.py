"""The guest in a qemu command line, and its figures."""

from __future__ import annotations

import os
import shutil
from math import isnan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.model.codes import FIRST, MISSING, VALID
from probes.discovery import Discovery, Selection
from probes.host_facts import HostFacts
from probes.metrics import VMS
from probes.qemu import Guest, parse, taps
from probes.sources.procfs_vms import VmSource
from tests.support import FIXTURES

CAPTURES = FIXTURES / "proc"
UUID = "0a1b2c3d-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("line", "guest"),
    [
        (f"/usr/bin/qemu-system-x86_64 -name guest=web,debug-threads=on -uuid {UUID} -m 2048 -smp 2,sockets=2", None),
        (f"qemu-system-x86_64 --name web -uuid {UUID.upper()} -m 2G -smp cpus=2", None),
        (f"/usr/libexec/qemu-kvm -name web,process=x -uuid {UUID} -m size=2097152k,slots=16 -smp 2", None),
        (f"kvm -name web -uuid {UUID} -m 2048M -smp sockets=1,cores=1,threads=2", None),
        ("qemu-system-aarch64 -nographic", Guest("", "", 1, 128 << 20)),
        ("qemu-system-x86_64 -name guest=a,,b -m 1.5G -smp x", Guest("a,b", "", 1, 3 << 29)),
        ("qemu-system-x86_64 -m huge", Guest("", "", 1, 0)),
    ],
)
def test_command_lines(line: str, guest: Guest | None) -> None:
    assert parse(line.split()) == (guest or Guest("web", UUID, 2, 2 << 30))


@pytest.mark.parametrize(
    ("options", "accelerator", "incoming"),
    [
        ("-accel kvm -incoming defer", "kvm", True),
        ("-machine pc-q35-8.2,usb=off,accel=kvm,dump-guest-core=off", "kvm", False),
        ("-nodefaults -enable-kvm --incoming tcp:0:4444", "kvm", True),
        ("-M accel=tcg", "tcg", False),
        ("-machine q35,accel=kvm:tcg", "", False),  # either: it depends on the host
        ("-accel kvm -accel tcg", "", False),
        ("-accel tcg,thread=multi", "tcg", False),
        ("-accel", "", False),
        ("-machine q35 -name incoming", "", False),
    ],
)
def test_what_runs_the_guest_and_what_waits_for_one(options: str, accelerator: str, incoming: bool) -> None:
    guest = parse(f"qemu-system-x86_64 {options}".split())
    assert guest is not None
    assert (guest.accelerator, guest.incoming) == (accelerator, incoming)


@pytest.mark.parametrize("line", ["", "bash", "qemu-img create x 1G", "vi qemu-system-x86_64.txt", "qemu-ga -m x"])
def test_what_is_no_virtual_machine(line: str) -> None:
    assert parse(line.split()) is None


@given(st.lists(st.text(max_size=40), max_size=12))
def test_no_command_line_is_too_odd(words: list[str]) -> None:
    assert parse(["qemu-system-x86_64", *words]) is not None


def guest_proc(tmp_path: Path) -> Path:
    """/proc with one qemu process that holds the tap vnet7."""
    proc = tmp_path / "proc"
    shutil.copytree(CAPTURES / "before", proc)
    base = proc / "4711"
    stat = base / "stat"
    stat.write_text(stat.read_text().replace("a (b) c", "qemu-system-x86"))
    words = ["qemu-system-x86_64", "-name", "guest=web", "-uuid", UUID, "-m", "2048", "-smp", "2"]
    words += ["-accel", "kvm", "-incoming", "defer"]
    (base / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
    for directory in ("fd", "fdinfo"):
        (base / directory).mkdir()
    os.symlink("/dev/net/tun", base / "fd" / "30")
    os.symlink("/dev/null", base / "fd" / "1")
    (base / "fdinfo" / "30").write_text("pos:\t0\nflags:\t0104002\niff:\tvnet7\n")
    return proc


def test_the_tap_of_a_guest(tmp_path: Path) -> None:
    assert taps(str(guest_proc(tmp_path)), 4711) == ["vnet7"]
    assert taps(str(tmp_path / "proc"), 1) == []


def test_a_guest_sees_its_tap_from_the_other_side(tmp_path: Path) -> None:
    proc = guest_proc(tmp_path)
    facts = HostFacts("host-a", str(proc))
    source = VmSource(VMS, facts, Discovery(facts, Selection(), 5.0))
    source.sample(1000.0, 10.0)
    (proc / "net" / "dev").write_bytes((CAPTURES / "after" / "net" / "dev").read_bytes())
    reading = source.sample(1002.0, 12.0)
    assert reading is not None
    [entity] = reading.entities
    assert (entity.kind, entity.stable, entity.name) == ("vm", UUID, "web")
    assert entity.epoch.endswith(":4711:123456")
    assert float(entity.labels["started"]) == pytest.approx(123456 / facts.hertz)
    assert (entity.labels["accelerator"], entity.labels["incoming"]) == ("kvm", "yes")
    values = dict(zip([metric.name for metric in VMS.metrics], reading.values, strict=True))
    assert values["vcpu_count"] == 2
    assert values["memory_assigned_bytes"] == 2 << 30
    assert values["network_receive_bytes_per_second"] == 1500.0  # what the host transmitted
    assert values["network_transmit_bytes_per_second"] == 500.0
    source.close()


def test_a_guest_without_a_tap_has_no_traffic(tmp_path: Path) -> None:
    proc = guest_proc(tmp_path)
    shutil.rmtree(proc / "4711" / "fd")
    facts = HostFacts("host-a", str(proc))
    source = VmSource(VMS, facts, Discovery(facts, Selection(), 5.0))
    reading = source.sample(1000.0, 10.0)
    assert reading is not None
    assert list(reading.codes[-4:]) == [VALID, VALID, MISSING, MISSING]
    assert isnan(reading.values[-1])
    assert reading.codes[0] == FIRST
    source.close()


def test_no_guests_no_rows(tmp_path: Path) -> None:
    facts = HostFacts("host-a", str(shutil.copytree(CAPTURES / "before", tmp_path / "proc")))
    source = VmSource(VMS, facts, Discovery(facts, Selection(), 5.0))
    assert source.sample(1.0, 1.0) is None
    source.close()
