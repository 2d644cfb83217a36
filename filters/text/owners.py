"""Owner names of VMs: Proxmox VE or OpenNebula number, KubeVirt name, uuid.

The KubeVirt name is NAMESPACE/NAME.
"""

from __future__ import annotations

from collections.abc import Mapping

_NUMBERS = ("vmid", "one")  #: labels that number a VM within its platform


def own_id(name: str, stable: str, labels: Mapping[str, str]) -> str:
    """Id of an entity within its platform; its identity here (a uuid) if the platform uses that."""
    number = next((labels[label] for label in _NUMBERS if label in labels), "")
    if number or labels.get("owner") == "kubevirt":
        return number or name
    project = labels.get("project", "")
    return f"{project}/{name}" if project else stable


def owner_id(name: str, stable: str, labels: Mapping[str, str]) -> str:
    """Platform and the id within it: ``proxmox 302``, ``openstack UUID``, or only a uuid without a platform."""
    return f"{labels.get('owner', '')} {own_id(name, stable, labels)}".strip()
