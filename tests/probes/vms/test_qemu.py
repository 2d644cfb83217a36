"""What the options of qemu say about its guest, whoever started it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from probes.vms.qemu import Guest, is_qemu, parse
from probes.vms.qemu_options import bytes_of, fields_of, sections_of, values_of
from tests.support import FIXTURES
from tests.support.guest_proc import words_of

UUID = "0a1b2c3d-0000-4000-8000-000000000001"
MIB, GIB = 1 << 20, 1 << 30
PLATFORMS = sorted(path.stem for path in (FIXTURES / "qemu").glob("*.txt"))


def guest(line: str, program: str = "") -> Guest:
    found = parse(line.split(), program)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "line",
    [
        f"/usr/bin/qemu-system-x86_64 -name guest=web,debug-threads=on -uuid {UUID} -m 2048 -smp 2,sockets=2",
        f"qemu-system-x86_64 --name web -uuid {UUID.upper()} -m 2G -smp cpus=2",
        f"/usr/libexec/qemu-kvm -name web,process=x -uuid {UUID} -m size=2097152k,slots=16 -smp 2",
        f"kvm -name web -smbios type=1,uuid={UUID} -m 2048M -smp sockets=1,cores=1,threads=2",
        f"/usr/bin/qemu-kvm-one -name guest=web -uuid {UUID} -M q35,memory.size=2G,smp.cpus=2",
        f"qemu-system-x86_64 -name web -uuid {UUID} -m 1024,maxmem=4G -m size=2G -smp 1 -smp cpus=2",
    ],
)
def test_ways_to_write_one_guest(line: str) -> None:
    assert guest(line) == Guest("web", UUID, 2, 2, 2 << 30)


@pytest.mark.parametrize(
    ("options", "vcpus"),
    [
        ("", (1, 1)),
        ("-smp 2,maxcpus=8", (2, 8)),
        ("-smp maxcpus=8", (8, 8)),
        ("-smp sockets=2,dies=2,cores=2,threads=2", (16, 16)),
        ("-smp 4,cores=2", (4, 4)),
        ("-smp 1,maxcpus=4 -device host-x86_64-cpu,id=a -device driver=host-x86_64-cpu", (3, 4)),
        ('-smp 1,maxcpus=4 -device {"driver":"host-x86_64-cpu","id":"a"}', (2, 4)),
        ("-smp 2,maxcpus=2 -device host-x86_64-cpu", (2, 2)),
        ("-smp 8,maxcpus=32,threads=8 -device host-spapr-cpu-core", (16, 32)),
        ("-smp x", (None, None)),
        ("-smp 0x2", (None, None)),
        ("-machine raspi3b", (None, None)),
    ],
)
def test_vcpus(options: str, vcpus: tuple[int | None, int | None]) -> None:
    found = guest(f"qemu-system-x86_64 -nographic {options}")
    assert (found.vcpus, found.most_vcpus) == vcpus


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        ("", 128 * MIB),
        ("-machine pc-q35-8.2", 128 * MIB),
        ("-m slots=2,maxmem=4G", 128 * MIB),
        ("-machine raspi3b", None),
        ("-machine pseries", None),
        ("-m 0", None),
        ("-m huge", None),
        ("-m 1.5G", 3 << 29),
        ("-m 1048576B", MIB),
        ("-m 512 -object memory-backend-ram,id=a,size=1G", 512 * MIB),  # in the place of the 512
        ("-m 512 -object memory-backend-ram,id=a,size=1G -device pc-dimm,memdev=a", 1536 * MIB),
        ("-m 512 -object memory-backend-file,size=1073741824,id=a -device driver=pc-dimm,memdev=a", 1536 * MIB),
        ("-m 512 -object memory-backend-ram,id=a,size=8G -device virtio-mem-pci,memdev=a,requested-size=0", 8704 * MIB),
        ("-m 512 -device pc-dimm,memdev=unknown", None),
        ("-m 512 -object memory-backend-file,id=a,size=1G -device nvdimm,memdev=a", 512 * MIB),  # storage
    ],
)
def test_memory(options: str, memory: int | None) -> None:
    assert guest(f"qemu-system-x86_64 -nographic {options}").memory_bytes == memory


def test_default_size_is_that_of_a_pc_only() -> None:
    for program in ("qemu-system-ppc64", "qemu-system-aarch64"):
        found = guest(f"{program} -nographic")
        assert (found.vcpus, found.memory_bytes) == (None, None)


@given(st.lists(st.integers(1, 64), max_size=12), st.booleans(), st.booleans())
def test_memory_is_the_sum_of_all_devices(sizes: list[int], as_json: bool, before: bool) -> None:
    words = ["qemu-system-x86_64"]
    for number, size in enumerate(sizes):
        backend = f"memory-backend-ram,id=m{number},size={size}M"
        device = f"pc-dimm,memdev=m{number},id=d{number}"
        if as_json:
            backend = f'{{"qom-type":"memory-backend-ram","id":"m{number}","size":{size * MIB}}}'
            device = f'{{"driver":"pc-dimm","memdev":"m{number}","id":"d{number}"}}'
        pair = [["-object", backend], ["-device", device]]
        words += chain(*(pair if before else pair[::-1]))
    found = parse([*words, "-m", "1024"])
    assert found is not None
    assert found.memory_bytes == (1024 + sum(sizes)) * MIB


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
    found = guest(f"qemu-system-x86_64 {options}")
    assert (found.accelerator, found.incoming) == (accelerator, incoming)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "bash",
        "kvm-ok",
        "kvm-ok -name x",
        "qemu-img create -m 4 x 1G",
        "qemu-nbd -name x",
        "qemu-storage-daemon --blockdev file --chardev x",
        "qemu-ga -m x",
        "qemu-x86_64-static -cpu host program",
        "vim qemu-system-x86_64 -name x",
        "/bin/sh ./kvm -name x -m 5",
        "qemu-system-x86_64 --version",
        "qemu-system-x86_64",
        "kvm 1000",
        "qemu-system-x86_64 -S -no-user-config -nodefaults -nographic -machine none,accel=kvm:tcg -daemonize",
    ],
)
def test_what_is_no_virtual_machine(line: str) -> None:
    assert parse(line.split()) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/nix/store/x-qemu/bin/.qemu-system-x86_64-wrapped", True),
        ("/usr/libexec/qemu-kvm", True),
        ("/usr/bin/qemu-system-aarch64", True),
        ("/usr/bin/qemu-system-x86_64 (deleted)", True),  # the package was upgraded
        ("/usr/libexec/qemu-kvm;65a0b1c2 (deleted)", True),
        ("/usr/bin/qemu-system-x86_64.dpkg-tmp (deleted)", True),
        ("/usr/bin/kvm-spice", True),
        ("/opt/kata/bin/qemu-lite-system-x86_64", True),
        ("/usr/bin/python3.11", False),
        ("/usr/bin/qemu-system-x86_64/sleep", False),
        ("/usr/bin/kvm-ok", False),
        ("/usr/bin/qemu-io", False),
    ],
)
def test_executables(path: str, expected: bool) -> None:
    assert is_qemu(path) is expected


@pytest.mark.parametrize("name", ["vtpm-td", "web-01", "qemu:web", "sh", "", "a,,b"])
def test_name_of_the_process_changes_nothing(name: str) -> None:
    assert guest(f"qemu-system-x86_64 -name guest=web,process={name} -m 2048").name == "web"


def test_text_of_the_guest_is_no_option() -> None:
    words = ["qemu-system-x86_64", "-append", "-uuid", "-smbios", "type=11,value=-name", "-name", "web"]
    found = parse(words)
    assert found is not None
    assert (found.name, found.uuid) == ("web", "")
    assert guest("qemu-system-x86_64 -no-hpet -name web").name == "web"
    assert guest("qemu-system-x86_64 -uuid 00000000-0000-0000-0000-000000000000").uuid == ""  # qemu's own default


@pytest.mark.parametrize("words", [words_of(name) for name in PLATFORMS], ids=PLATFORMS)
def test_order_of_options_does_not_matter(words: Sequence[str]) -> None:
    values = values_of(words)
    pairs = [[f"-{option}", *([value] if value else [])] for option, all_of in values.items() for value in all_of]
    assert parse([words[0], *chain(*reversed(pairs))]) == parse(words)


LXD = (FIXTURES / "qemu" / "lxd.conf").read_text()


def test_size_from_a_configuration_file() -> None:
    asked: list[str] = []
    found = parse(words_of("lxd"), "", lambda path: (asked.append(path), LXD)[1])
    assert found is not None
    assert (found.vcpus, found.most_vcpus, found.memory_bytes, found.accelerator) == (4, 4, 10 * GIB, "kvm")
    assert asked == ["/var/snap/lxd/common/lxd/logs/v1/qemu.conf"]
    plugged = LXD + '[object "d"]\nqom-type="memory-backend-ram"\nsize="1G"\n[device]\ndriver="pc-dimm"\nmemdev="d"\n'
    found = parse(words_of("lxd"), "", lambda path: plugged)
    assert found is not None
    assert found.memory_bytes == 11 * GIB


def test_size_in_a_file_that_cannot_be_read_is_unknown() -> None:
    found = parse(words_of("lxd"))
    assert found is not None
    assert (found.vcpus, found.most_vcpus, found.memory_bytes) == (None, None, None)
    found = parse(words_of("proxmox"))  # its file has devices, the options have the size
    assert found is not None
    assert (found.vcpus, found.memory_bytes) == (4, 4 * GIB)


@given(st.lists(st.text(max_size=40), max_size=12), st.text(max_size=200))
@example(["-device", "{" * 100_000], "")
@example(["-device", '{"driver":[1]}', "-object", "[]", "-smp", "9" * 400, "-m", "9" * 400], '[a "b"]\nc = "d"')
def test_no_command_line_is_too_odd(words: list[str], text: str) -> None:
    found = parse(["qemu-system-x86_64", "-nodefaults", "-readconfig", "/x", *words], "", lambda path: text)
    machine = {**values_of(["", *words])}
    assert found is not None or "none" in str(machine) or "none" in text


@given(st.integers(0, 1 << 50), st.sampled_from("bkmgt"))
def test_sizes(number: int, unit: str) -> None:
    assert bytes_of(f"{number}{unit.upper()}", "m") == bytes_of(str(number), unit) == number << 10 * "bkmgt".index(unit)


def test_options_as_written() -> None:
    assert fields_of("a,,b,c=d,,e,f", "first") == {"first": "a,b", "c": "d,e", "f": ""}
    assert fields_of('{"a": 1, "b": "c"}', "first") == {"a": "1", "b": "c"}
    assert sections_of('[object "a"]\n  size = "1"\n# x\n[object "b"]\n') == {
        "object": [{"id": "a", "size": "1"}, {"id": "b"}]
    }
    assert values_of(["p", "--name", "x", "-S", "-m", "1", "-incoming", "-", "image"]) == {
        "name": ["x"], "S": [""], "m": ["1"], "incoming": ["-"],
    }  # fmt: skip
