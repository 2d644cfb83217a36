"""Labels that constrain moves; all other labels are for people.

=================  =======================================================================
label              meaning
=================  =======================================================================
``cordoned``       of a host: takes no VM (those that it has may leave)
``pinned``         of a VM: stays where it is
``local``          of a VM: its id holds on its host only, so nobody can migrate it by that; from the probe
``groups``         of a host: names with commas between; of a VM: ``group``, a name. A VM with
                   a group goes only to hosts that have it among theirs
``anti_affinity``  of a VM: two VMs of the same value are never put on one host
``hugepages``      of a VM, set by the probe: its memory is in huge pages, which its host must have free
=================  =======================================================================

``cordoned``, ``pinned``, ``local`` and ``hugepages`` hold unless their value is empty, ``false``, ``no`` or ``0``.
"""

from __future__ import annotations

from collections.abc import Mapping

CORDONED = "cordoned"
PINNED = "pinned"
LOCAL = "local"
GROUP = "group"
GROUPS = "groups"
ANTI_AFFINITY = "anti_affinity"
HUGEPAGES = "hugepages"

_FALSE = frozenset(("", "false", "no", "0"))


def is_set(labels: Mapping[str, str], name: str) -> bool:
    """Whether a label that is true or false is true."""
    return labels.get(name, "").strip().lower() not in _FALSE


def names(labels: Mapping[str, str], name: str) -> frozenset[str]:
    """The names in a label that holds several."""
    return frozenset(each.strip() for each in labels.get(name, "").split(",")) - {""}
