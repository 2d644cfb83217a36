"""Labels that constrain moves; all other labels are for people.

=================  =======================================================================
label              meaning
=================  =======================================================================
``cordoned``       of a host: takes no VM (those that it has may leave)
``maintenance``    of a host: takes no VM, and all that it has are moved away
``pinned``         of a VM: stays where it is
``local``          of a VM: its id holds on its host only, so nobody can migrate it by that; from the probe
``groups``         of a host: names with commas between; of a VM: ``group``, a name. A VM with
                   a group goes only to hosts that have it among theirs
``not_group``      of a VM: names with commas between; it never goes to hosts of these groups
``affinity``       of a VM: VMs of the same value stay on one host, except while that is in maintenance
``anti_affinity``  of a VM: two VMs of the same value are never put on one host
``prefer_…``       of a VM: ``prefer_group`` and so on, the same four as a wish: a host where it is not met
                   comes after all hosts where more are
``hugepages``      of a VM, set by the probe: its memory is in huge pages, which its host must have free
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
PREFER = "prefer_"  #: before a label of a VM that concerns where it goes: a wish instead of a rule
HUGEPAGES = "hugepages"

_FALSE = frozenset(("", "false", "no", "0"))


def is_set(labels: Mapping[str, str], name: str) -> bool:
    """Whether a label that is true or false is true."""
    return labels.get(name, "").strip().lower() not in _FALSE


def names(labels: Mapping[str, str], name: str) -> frozenset[str]:
    """The names in a label that holds several."""
    return frozenset(each.strip() for each in labels.get(name, "").split(",")) - {""}
