"""A VM is what its owner says it is: stable id, name and labels, on every platform, before and after a migration."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.wire.table import Entity
from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_vms import VmSource
from probes.vms.guest_process import Found
from probes.vms.qemu import Guest
from probes.vms.vm_identity import identities
from tests.support import ROOT
from tests.support.guest_proc import GuestProc, words_of


def uuid(number: int) -> str:
    return f"9b793bd8-30b0-400d-8196-6264858d33{number:02d}"


def entities(proc: GuestProc, host: str = "host-a", scope: str = "") -> list[Entity]:
    """The rows of a host's VMs."""
    with sampling(proc, host, scope) as rows:
        return rows()


@contextmanager
def sampling(proc: GuestProc, host: str = "host-a", scope: str = "") -> Iterator[Callable[[], list[Entity]]]:
    """Gives the rows of a host's VMs as often as it is called."""
    facts = HostFacts(host, str(proc.path), scope=scope)
    moments = count(10)

    def rows() -> list[Entity]:
        moment = float(next(moments))
        reading = source.sample(1000.0 + moment, moment)
        return [] if reading is None else reading.entities

    with closing(VmSource(VMS, facts, Discovery(facts, Selection(), 0.5))) as source:
        yield rows


class Case(NamedTuple):
    fixture: str
    stable: str
    name: str
    labels: Mapping[str, str]


#: The table "Identities": what the owner of the VM calls it.
CASES = (
    Case("libvirt", uuid(1), "web", {}),
    Case("openstack", uuid(2), "instance-0000003d", {"owner": "openstack"}),
    Case("cloudstack", uuid(3), "i-2-14-VM", {"owner": "cloudstack"}),
    Case("cloudstack-custom", uuid(13), "r-4-VM", {"owner": "cloudstack"}),
    Case("opennebula", uuid(4), "one-524", {"owner": "opennebula", "one": "524"}),
    Case("proxmox", uuid(5), "web", {"owner": "proxmox", "vmid": "302"}),
    Case("proxmox-hotplug", uuid(0), "web", {"owner": "proxmox", "vmid": "302"}),
    Case("proxmox-without-smbios", "pve:north/8006", "simple", {"owner": "proxmox", "vmid": "8006"}),
    Case(
        "kubevirt",
        "kubevirt:north/default/vmi-ephemeral",
        "default/vmi-ephemeral",
        {"owner": "kubevirt", "namespace": "default", "uuid": uuid(6)},
    ),
    Case("kubevirt-renamed", "kubevirt:north/shop/db", "shop/db", {"owner": "kubevirt", "namespace": "shop"}),
    Case("lxd", uuid(8), "v1", {"owner": "lxd", "project": "default"}),
    Case("incus-project", uuid(9), "v1", {"owner": "incus", "project": "shop"}),
    Case("nixos", uuid(10), "web", {}),
    Case("ganeti", uuid(11), "instance1.example", {}),
    Case("microvm", "host-a:uvm", "uvm", {"local": "yes"}),
    Case("plain", "host-a:4711", "qemu-system-x86", {"local": "yes"}),
)


@pytest.mark.parametrize("case", CASES, ids=[case.fixture for case in CASES])
def test_identity_of_each_platform(case: Case, tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    proc.add(4711, words_of(case.fixture))
    [entity] = entities(proc, scope="north")
    assert (entity.stable, entity.name) == (case.stable, case.name)
    assert entity.epoch.endswith(":4711:123456")
    own = {key: value for key, value in entity.labels.items() if key not in ("pid", "host", "started", "accelerator")}
    expected = {"uuid": case.stable} if case.stable == own.get("uuid") else {}
    assert {key: value for key, value in own.items() if key in case.labels or key == "local"} == dict(case.labels)
    assert expected.items() <= own.items()


@pytest.mark.parametrize("case", CASES, ids=[case.fixture for case in CASES])
def test_one_vm_before_and_after_a_migration(case: Case, tmp_path: Path) -> None:
    source, destination = GuestProc(tmp_path / "a"), GuestProc(tmp_path / "b")
    source.add(4711, words_of(case.fixture))
    destination.add(815, [*words_of(case.fixture), "-incoming", "defer"], start=777)
    [before] = entities(source, "host-a", "north")
    [after] = entities(destination, "host-b", "north")
    assert (before.stable == after.stable) is ("local" not in case.labels)
    assert before.id != after.id
    assert after.labels["incoming"] == "yes"


def test_vms_of_one_name_in_two_namespaces_are_two(tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    proc.add(4711, words_of("kubevirt"))
    proc.add(4712, words_of("kubevirt-other-namespace"))
    one, two = entities(proc)
    assert one.labels["uuid"] == two.labels["uuid"]
    assert {one.stable, two.stable} == {"kubevirt:/default/vmi-ephemeral", "kubevirt:/shop/vmi-ephemeral"}
    assert not {"local"} & (one.labels.keys() | two.labels.keys())


def with_name(words: Sequence[str], name: str) -> list[str]:
    at = words.index("-name") + 1
    return [*words[:at], f"guest={name}", *words[at + 1 :]]


def test_two_processes_of_one_uuid_and_two_names_are_two_vms(tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    proc.add(4711, words_of("libvirt"), start=500)
    proc.add(4712, with_name(words_of("libvirt"), "copy"), start=400)
    found = {entity.name: entity for entity in entities(proc)}
    assert (found["copy"].stable, found["web"].stable) == (uuid(1), "host-a:web")  # the older one keeps its id
    assert ("local" in found["copy"].labels, "local" in found["web"].labels) == (False, True)
    assert found["web"].labels["uuid"] == uuid(1)


@pytest.mark.parametrize("fixture", ["libvirt", "microvm"])
def test_id_lasts_as_long_as_the_process_whichever_others_end(fixture: str, tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    proc.add(4711, words_of(fixture), start=400)
    copy = with_name(words_of(fixture), "copy") if fixture == "libvirt" else words_of(fixture)
    proc.add(4712, copy, start=500)
    with sampling(proc) as rows:
        before = {entity.labels["pid"]: entity for entity in rows()}
        shutil.rmtree(proc.path / "4711")
        assert rows() == [before["4712"]]
    assert before["4711"].stable != before["4712"].stable


def test_vm_that_migrates_within_its_host_is_one(tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    proc.add(4711, words_of("libvirt"))
    proc.add(4712, [*words_of("libvirt"), "-incoming", "defer"], start=200000)
    one, two = entities(proc)
    assert one.stable == two.stable == uuid(1)
    assert one.id != two.id


def test_scope_keeps_clusters_apart(tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    proc.add(4711, words_of("proxmox-without-smbios"))
    assert [entities(proc, scope=scope)[0].stable for scope in ("", "north")] == ["pve:/8006", "pve:north/8006"]


def test_scope_is_read_again_at_sighup(tmp_path: Path) -> None:
    program, config = tmp_path / "kvm", tmp_path / "c.toml"
    shutil.copy("/bin/sh", program)  # waits under the name and with the options of a guest of Proxmox VE
    guest = subprocess.Popen(
        [program, "-c", "read line", "-id", "302", "-name", "web", "-m", "64"], stdin=subprocess.PIPE
    )
    text = "[probe]\ninterval_seconds = 0.1\ndiscovery_interval_seconds = 0.1\n[probe.host]\nenabled = false\n"
    text += "[probe.processes]\nenabled = false\n[probe.vms]\nscope = "
    config.write_text(f'{text}"north"\n')
    command = [sys.executable, "-m", "probes.probe_command", "--dry-run", "--seconds", "60", "--config", str(config)]
    probe = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert probe.stdout is not None
    try:
        stables = (entity["stable"] for line in probe.stdout for entity in json.loads(line)["entities"])
        assert next(stable for stable in stables if stable.startswith("pve:")) == "pve:north/302"
        config.write_text(f'{text}"south"\n')
        probe.send_signal(signal.SIGHUP)
        assert next(stable for stable in stables if stable == "pve:south/302")
    finally:
        for process in (probe, guest):
            process.kill()
            process.communicate()


NAMES = st.sampled_from(["", "a", "b"])
UUIDS = st.sampled_from(["", uuid(1), uuid(2)])


@given(st.lists(st.tuples(NAMES, UUIDS, st.integers(1, 3)), max_size=8))
def test_no_two_vms_of_a_host_have_one_id(rows: list[tuple[str, str, int]]) -> None:
    found = [
        Found(pid, start, "qemu", 0, False, Guest(name, given_uuid, 1, 1, 1 << 30), False)
        for pid, (name, given_uuid, start) in enumerate(rows, 10)
    ]
    known = identities(HostFacts("h"), found)
    assert known.keys() == {each.pid for each in found}
    assert known == identities(HostFacts("h"), reversed(found))
    names: dict[str, set[tuple[str, str]]] = {}
    for each in found:
        assert each.guest is not None
        names.setdefault(known[each.pid].stable, set()).add((each.guest.uuid, each.guest.name))
    assert all(len(vms) == 1 for vms in names.values())
    without = [known[each.pid] for each in found if each.guest is not None and not each.guest.uuid]
    assert all("local" in each.labels for each in without)
    assert len({each.stable for each in without}) == len(without)
