"""Labels that constrain moves; all other labels are informational.

=================  =======================================================================
label              meaning
=================  =======================================================================
``cordoned``       of a host: takes no VM (its own VMs may leave)
``maintenance``    of a host: takes no VM, and all of its VMs are moved away
``pinned``         of a VM: stays where it is
``local``          of a VM, set by the probe: its id is valid on its host only and cannot identify a migration
``groups``         of a host: comma-separated names; of a VM: ``group``, a name. A VM with
                   a group goes only to hosts that have it among theirs
``not_group``      of a VM: comma-separated names; it never goes to hosts of these groups
``affinity``       of a VM: VMs with the same value stay on one host, except while it is in maintenance
``anti_affinity``  of a VM: two VMs with the same value are never placed on one host
``prefer_…``       of a VM: ``prefer_group`` and so on, the same four as wishes: a host that meets fewer
                   comes after all hosts that meet more
``hugepages``      of a VM, set by the probe: its memory is in huge pages; a host must have them free
=================  =======================================================================

``cordoned``, ``maintenance``, ``pinned``, ``local`` and ``hugepages`` hold unless their value is empty, ``false``,
``no`` or ``0``.
"""

from __future__ import annotations

from collections.abc import Mapping

CORDONED = "cordoned"
MAINTENANCE = "maintenance"
PINNED = "pinned"
LOCAL = "local"
GROUP = "group"
GROUPS = "groups"
NOT_GROUP = "not_group"
AFFINITY = "affinity"
ANTI_AFFINITY = "anti_affinity"
PREFER = "prefer_"  #: prefix that makes a placement label of a VM a wish instead of a rule
HUGEPAGES = "hugepages"

_FALSE = frozenset(("", "false", "no", "0"))


def is_set(labels: Mapping[str, str], name: str) -> bool:
    """Whether a boolean label is true."""
    return labels.get(name, "").strip().lower() not in _FALSE


def names(labels: Mapping[str, str], name: str) -> frozenset[str]:
    """The names in a comma-separated label."""
    return frozenset(each.strip() for each in labels.get(name, "").split(",")) - {""}
