"""What hosts are called: a name belongs to one id, whatever other hosts call themselves (pure)."""

from __future__ import annotations

from collections.abc import Container, Mapping

from acquisition.model.identity import is_own_name


class HostNames:
    """Gives names to ids, in the order in which they come.

    The id of a probe is made of its name, and so are the users of shards and the keys that are made for it: such an id
    has the name, and nobody else, also before it is seen, or when it is no more. Only where no host has such an id does
    a name belong to the one that comes first, until it is forgotten. Any other host is called by its id.
    """

    def __init__(self) -> None:
        self.made_of_names = False  #: whether any id is
        self._first: dict[str, int] = {}

    def name(self, host: int, said: str) -> str:
        """What a host is called that calls itself ``said``."""
        own = is_own_name(said, host)
        self.made_of_names |= own
        if own or (not self.made_of_names and self._first.setdefault(said, host) == host):
            return said
        return f"{host:016x}"

    def forget(self, hosts: Container[int]) -> None:
        """Let go of the names of all but these."""
        self._first = {said: host for said, host in self._first.items() if host in hosts}


def names_of(said: Mapping[int, str]) -> dict[int, str]:
    """What all hosts are called, by what each calls itself."""
    names = HostNames()
    for _ in range(2):  # what is known of the last one counts for the first
        found = {host: names.name(host, word) for host, word in said.items()}
    return found
