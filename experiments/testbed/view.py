"""View of a cluster by one of its nodes (CLUSTER NODES)."""

from __future__ import annotations

from typing import NamedTuple


class Member(NamedTuple):
    """One line. ``failed`` if the cluster agrees on that, ``master`` the id of a replica's master."""

    node_id: str
    owns_slots: bool
    failed: bool
    epoch: int
    master: str


class ClusterView(NamedTuple):
    """All members by id, and the one that was queried."""

    asked: str
    members: dict[str, Member]

    @property
    def epoch(self) -> int:
        """The highest configuration epoch: it grows with every takeover, so the newer view has the higher one."""
        return max(member.epoch for member in self.members.values())

    @property
    def myself(self) -> Member:
        """The queried member."""
        return self.members[self.asked]

    @property
    def owners(self) -> set[str]:
        """Ids of the owners of slots."""
        return {member.node_id for member in self.members.values() if member.owns_slots}

    def replicas_of(self, node_id: str) -> set[str]:
        """Ids of the replicas of a master not known to have failed."""
        return {name for name, member in self.members.items() if member.master == node_id and not member.failed}


def parse(text: str) -> ClusterView:
    """``id address flags master ping pong epoch link slot…`` per line."""
    members, asked = {}, ""
    for line in text.splitlines():
        node_id, _, flags, master, _, _, epoch, _, *slots = line.split()
        owned = [slot for slot in slots if not slot.startswith("[")]  # [slot->-id]: a moving slot
        words = flags.split(",")
        asked = node_id if "myself" in words else asked
        members[node_id] = Member(node_id, bool(owned), "fail" in words, int(epoch), "" if master == "-" else master)
    return ClusterView(asked, members)
