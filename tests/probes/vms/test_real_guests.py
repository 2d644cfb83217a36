"""The size of a guest by its options, its configuration file and its huge pages, against what its own qemu says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from acquisition.model.codes import VALID
from experiments.processes.guest import Monitor
from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_vms import VmSource
from probes.vms.guest_process import Found
from tests.support.processes import started

pytestmark = pytest.mark.needs("qemu-system-x86_64")
MIB = 1 << 20
PAGE, PAGES = 2 * MIB, 24
DIMM = ["-m", "48,slots=2,maxmem=1G", "-object"]
FILE = """
[machine]
  type = "q35"
[memory]
  size = "48M"
  maxmem = "1G"
  slots = "2"
[smp-opts]
  cpus = "3"
  maxcpus = "4"
[object "more"]
  qom-type = "memory-backend-ram"
  size = "128M"
[device "dimm"]
  driver = "pc-dimm"
  memdev = "more"
"""


@contextmanager
def qemu(directory: Path, options: list[str]) -> Iterator[tuple[Found, Monitor]]:
    """A process of qemu with these options, whose guest never runs, as discovery finds it."""
    path = directory / "qmp"
    command = [
        "qemu-system-x86_64",
        "-accel",
        "tcg",
        "-name",
        "sized",
        "-display",
        "none",
        "-nodefaults",
        "-S",
        *options,
    ]
    command += ["-qmp", f"unix:{path},server=on,wait=off"]
    with started(command, stdin=subprocess.DEVNULL) as process, closing(Monitor(path)) as monitor:
        discovery = Discovery(HostFacts("here"), Selection(every=False), 5.0)
        discovery.scan()
        yield discovery.guests[process.pid], monitor


@pytest.mark.parametrize(
    "options",
    [
        ["-m", "48"],
        ["-m", "size=49152k", "-smp", "sockets=1,cores=2,threads=1"],
        ["-m", "48", "-object", "memory-backend-memfd,id=first,size=48M", "-machine", "pc,memory-backend=first"],
        [*DIMM, "memory-backend-ram,id=more,size=128M", "-device", "pc-dimm,memdev=more"],
        [*DIMM, '{"qom-type":"memory-backend-ram","id":"more","size":134217728}',
         "-device", '{"driver":"pc-dimm","memdev":"more","id":"dimm"}'],
        [*DIMM, "memory-backend-file,id=more,size=128M,mem-path=FILE.memory", "-device", "pc-dimm,memdev=more"],
        ["-smp", "1,maxcpus=4,sockets=4", "-device", "qemu64-x86_64-cpu,socket-id=2,core-id=0,thread-id=0", "-m", "48"],
        ["-readconfig", "FILE"],
    ],
)  # fmt: skip
def test_size_is_what_qemu_says(tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "qemu.conf"
    file.write_text(FILE)
    with qemu(tmp_path, [word.replace("FILE", str(file)) for word in options]) as (found, monitor):
        memory = monitor.ask("query-memory-size-summary")
        assert found.guest is not None
        assert found.guest.memory_bytes == memory["base-memory"] + memory.get("plugged-memory", 0)
        assert found.guest.vcpus == len(monitor.ask("query-cpus-fast"))


@contextmanager
def huge_pages(count: int) -> Iterator[None]:
    """So many more huge pages of 2 MiB on this machine, which others may have as well."""
    file = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    if os.geteuid() != 0 or not file.exists():
        pytest.skip("huge pages need root and a kernel that has them")
    before = int(file.read_text())
    file.write_text(f"{before + count}\n")
    try:
        if int(file.read_text()) < before + count:
            pytest.skip("the memory of this machine is too scattered for huge pages")
        yield
    finally:
        file.write_text(f"{before}\n")


def test_memory_in_huge_pages_is_in_use(tmp_path: Path) -> None:
    backend = f"memory-backend-memfd,id=first,size={PAGE * PAGES // MIB}M,hugetlb=on,hugetlbsize=2M,prealloc=on"
    options = ["-m", f"{PAGE * PAGES // MIB}", "-object", backend, "-machine", "pc,memory-backend=first"]
    with huge_pages(PAGES), qemu(tmp_path, options) as (found, _):
        discovery = Discovery(HostFacts("here"), Selection(every=False), 5.0)
        with closing(VmSource(VMS, HostFacts("here"), discovery)) as source:
            reading = source.sample(1000.0, 10.0)
        assert reading is not None
        row = [entity.name for entity in reading.entities].index("sized")
        at = row * len(VMS.metrics) + [metric.name for metric in VMS.metrics].index("memory_resident_bytes")
        assert reading.entities[row].labels["hugepages"] == "yes"
        assert reading.codes[at] == VALID
        assert reading.values[at] > PAGE * PAGES
        assert found.guest is not None
        assert found.guest.memory_bytes == PAGE * PAGES
