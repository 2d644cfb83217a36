"""Memory of guests in huge pages: resident memory counts it, a label says which guests need them."""

from __future__ import annotations

import shutil
from math import isnan
from pathlib import Path

import pytest

from acquisition.model.codes import MISSING, VALID
from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources.procfs_vms import VmSource
from probes.vms import guest_hugepages
from probes.vms.guest_hugepages import is_asked
from tests.support import FIXTURES

GIB = 1 << 30
CAPTURE = FIXTURES / "captures" / "hugepage-backed-guest" / "t0" / "proc"
NAMES = [metric.name for metric in VMS.metrics]
RESIDENT = 1500  #: pages, beside those


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CAPTURE, tmp_path / "proc"))


def source(proc: Path) -> VmSource:
    facts = HostFacts("host-a", str(proc))
    return VmSource(VMS, facts, Discovery(facts, Selection(), 5.0))


def sample(guests: VmSource, moment: float = 10.0) -> Reading:
    reading = guests.sample(1000.0 + moment, moment)
    assert reading is not None
    return reading


def cell(reading: Reading, name: str) -> tuple[float, int]:
    at = NAMES.index(name)
    return reading.values[at], reading.codes[at]


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_resident_memory_counts_huge_pages(proc: Path) -> None:
    guests = source(proc)
    reading = sample(guests)
    size = RESIDENT * HostFacts("host-a").page_size + 10 * GIB
    assert cell(reading, "memory_resident_bytes") == (size, VALID)
    assert cell(reading, "memory_ratio") == (pytest.approx(size / (256 * GIB)), VALID)
    assert reading.entities[0].labels["hugepages"] == "yes"
    guests.close()


def test_a_kernel_without_the_line_leaves_resident_memory_missing(proc: Path) -> None:
    change(proc / "4711" / "status", "HugetlbPages:", "Other:")
    guests = source(proc)
    for moment in (10.0, 30.0):
        reading = sample(guests, moment)
        for name in ("memory_resident_bytes", "memory_ratio"):
            value, code = cell(reading, name)
            assert (isnan(value), code) == (True, MISSING)
        assert cell(reading, "memory_virtual_bytes")[1] == VALID
        assert reading.entities[0].labels["hugepages"] == "yes"
    guests.close()


def test_an_ordinary_guest_of_such_a_host_is_as_before(proc: Path) -> None:
    change(proc / "4711" / "cmdline", "-mem-path\0/dev/hugepages", "-mem-path\0/dev/shm")
    for line in ("HugetlbPages:\t       0 kB", "Other:"):
        (proc / "4711" / "status").write_text(f"Name:\tqemu-system-x86\n{line}\n")
        guests = source(proc)
        reading = sample(guests)
        assert cell(reading, "memory_resident_bytes") == (RESIDENT * HostFacts("host-a").page_size, VALID)
        assert "hugepages" not in reading.entities[0].labels
        guests.close()


def test_what_a_guest_takes_later_counts_within_seconds(proc: Path) -> None:
    change(proc / "4711" / "cmdline", "-mem-path\0/dev/hugepages", "-smp\0002")
    change(proc / "4711" / "status", "10485760 kB", "0 kB")
    guests = source(proc)
    first = sample(guests)
    assert "hugepages" not in first.entities[0].labels
    change(proc / "4711" / "status", "0 kB", "2097152 kB")
    assert cell(sample(guests, 11.0), "memory_resident_bytes") == cell(first, "memory_resident_bytes")
    later = sample(guests, 10.0 + guest_hugepages._SECONDS)
    assert cell(later, "memory_resident_bytes")[0] == cell(first, "memory_resident_bytes")[0] + 2 * GIB
    assert later.entities[0].labels["hugepages"] == "yes"
    assert later.entities[0].id == first.entities[0].id
    guests.close()


def test_a_host_without_huge_pages_never_reads_status(proc: Path) -> None:
    with (proc / "meminfo").open("a") as file:
        file.write("Hugetlb: 0 kB\n")
    guests = source(proc)
    assert cell(sample(guests), "memory_resident_bytes")[0] == RESIDENT * HostFacts("host-a").page_size
    assert not guests._hugepages._known
    guests.close()


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ("-mem-prealloc -mem-path /dev/hugepages/libvirt/qemu/1-web", True),
        ("-mem-path /mnt/huge", True),
        ("--mem-path /dev/hugepages1G", True),
        ("-mem-path /dev/shm -name huge", False),
        ("-mem-prealloc", False),
        ("-object memory-backend-file,id=ram,size=1G,mem-path=/run/hugepages/kvm,share=on", True),
        ("-object memory-backend-file,id=ram,size=1G,mem-path=/dev/shm,share=on -name huge", False),
        ("-object memory-backend-memfd,id=ram,hugetlb=on,hugetlbsize=2M", True),
        ("-object memory-backend-memfd,id=ram,hugetlb=off", False),
        ('-object {"qom-type":"memory-backend-file","mem-path":"/dev/hugepages/libvirt/qemu/1-a"}', True),
        ('-object {"qom-type":"memory-backend-memfd","hugetlb":true,"hugetlbsize":2097152}', True),
        ('-object {"qom-type":"memory-backend-memfd","hugetlb":false}', False),
        ("-name guest=hugepages,debug-threads=on -drive file=/var/huge.img", False),
    ],
)
def test_options_that_ask_for_huge_pages(options: str, asked: bool) -> None:
    assert is_asked(["qemu-system-x86_64", *options.split(), "-smp", "2"]) is asked
