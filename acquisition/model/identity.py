"""Stable 64-bit identities of hosts and entities.

Identity = stable id + epoch: a process is (host, boot, pid, start time), a VM is
(uuid, and the process that runs it), so that a reused pid, a restart or a migration is a
new entity and never a negative rate.
"""

from __future__ import annotations

try:  # hashlib would load all of OpenSSL into every probe (3 MB)
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b


def identity(*parts: str) -> int:
    """The unsigned 64-bit BLAKE2b of the parts, joined by NUL so that ("a", "bc") is not ("ab", "c")."""
    digest: bytes = blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def host_id(name: str) -> int:
    """Identity of a host from its configured name."""
    return identity("host", name)


def is_own_name(name: str, number: int) -> bool:
    """Whether a host id is that of the name; never for a name that cannot be encoded."""
    try:
        return host_id(name) == number
    except UnicodeEncodeError:
        return False


def own_name(name: str, number: int) -> str:
    """Name of the host with this id: its own name only if the id is made of that."""
    return name if is_own_name(name, number) else f"{number:016x}"


def entity_id(kind: str, stable: str, epoch: str) -> int:
    """Identity of an entity: ``kind`` is ``host``, ``process`` or ``vm``."""
    return identity("entity", kind, stable, epoch)
