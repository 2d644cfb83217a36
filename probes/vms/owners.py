"""Owners of guests: the platform that started a qemu process, and its name.

The name is the platform's name of the guest.

=============  ========================================================  ==========================================
platform       recognized by                                             labels beside ``owner``
=============  ========================================================  ==========================================
openstack      smbios product ``OpenStack …``
cloudstack     smbios product ``CloudStack …``; name ``i-2-14-VM``
opennebula     name ``one-524``                                          ``one``: the number of the VM
proxmox        ``-id 302``, an option of its qemu only                   ``vmid``: that number
kubevirt       smbios manufacturer or family ``KubeVirt``, product       ``namespace``
               ``OpenShift Virtualization``; its directories; name
               ``NAMESPACE_NAME``
lxd, incus     smbios type 2, product ``LXD`` or ``Incus``; the path     ``project``
               ``…/[PROJECT_]NAME/qemu.conf`` of ``-readconfig``
=============  ========================================================  ==========================================

A guest of libvirt, Ganeti or no platform has no owner here. A uuid names a guest everywhere, except on KubeVirt, which
derives it from the name alone in older versions: two namespaces may have a VM of one name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from probes.vms.qemu_options import Options

_CLOUDSTACK = re.compile(r"(?:i-\d+|[rsv])-\d+-VM", re.ASCII)
_OPENNEBULA = re.compile(r"one-(\d+)", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)
_OPENSHIFT = ("OpenShift Virtualization", "Container-native virtualization")
_KUBEVIRT_FILES = "/run/kubevirt"
_INSTANCES = {"lxd": "LXD", "incus": "Incus"}  #: products by platform


class Owner(NamedTuple):
    """``labels`` of the guest, including ``owner``; ``title`` is its name on the platform, "" for the name
    given to qemu. ``key`` identifies the guest within the installation (``pve``, VMID), and replaces
    its uuid if ``instead``."""

    labels: tuple[tuple[str, str], ...] = ()
    title: str = ""
    key: tuple[str, str] | None = None
    instead: bool = False


NOBODY = Owner()


def owner_of(options: Options, name: str, arguments: Sequence[str]) -> Owner:
    """Owner of a guest from its options, the name given to qemu, and the whole command line."""
    smbios = {
        f"{fields.get('type', '')}.{key}": value
        for fields in options.all("smbios", "file")
        for key, value in fields.items()
    }
    number = options.last("id")
    if _NUMBER.fullmatch(number):
        return Owner((("owner", "proxmox"), ("vmid", number)), key=("pve", number))
    namespace, split, short = name.partition("_")
    if split and _is_kubevirt(smbios, arguments):
        title = f"{namespace}/{short}"
        return Owner((("owner", "kubevirt"), ("namespace", namespace)), title, ("kubevirt", title), True)
    product = smbios.get("1.product", "")
    if product.startswith("OpenStack"):
        return Owner((("owner", "openstack"),))
    if product.startswith("CloudStack") or _CLOUDSTACK.fullmatch(name):
        return Owner((("owner", "cloudstack"),))
    found = _OPENNEBULA.fullmatch(name)
    if found is not None:
        return Owner((("owner", "opennebula"), ("one", found[1])))
    return _instance(smbios.get("2.product", ""), options.last("readconfig").split("/"), name)


def _is_kubevirt(smbios: dict[str, str], arguments: Sequence[str]) -> bool:
    return (
        "KubeVirt" in (smbios.get("1.manufacturer"), smbios.get("1.family"))
        or smbios.get("1.product") in _OPENSHIFT
        or any(_KUBEVIRT_FILES in word for word in arguments)
    )


def _instance(product: str, path: Sequence[str], name: str) -> Owner:
    """Owner LXD or Incus; the directory of the configuration file is named after project and instance."""
    platform = next((each for each, word in _INSTANCES.items() if word == product or each in path), "")
    if not platform:
        return NOBODY
    directory = path[-2] if len(path) > 1 else ""
    project = "default" if directory == name else directory.removesuffix(f"_{name}")
    known = directory in (name, f"{project}_{name}")
    return Owner((("owner", platform), *((("project", project),) if known else ())))
