"""Partitions, hash tags and the names of every key in the shards.

A host hashes to one of a fixed number of partitions. Every key of a partition
carries the partition's hash tag, so a partition is in one slot of the Redis
Cluster: its update is one transaction and Redis's own resharding moves it.

==============================================  ======  =====================================
key                                             type    written by; holds
==============================================  ======  =====================================
``raw:{tag}``                                   stream  probes; a frame per entry: ``f``, signed: ``s``
``commit:{tag}``                                string  filter; the newest commit (``acquisition.wire.position``)
``applied:{tag}``                               hash    filter; field HOST:SET -> position record
``dormant:{tag}``                               hash    filter; of expired sets, and the roster (``wire.seen``), expires
``smoothed:{tag}:HOST:SET:SLOT``                string  filter; smoothed record with decision inputs, expires
``recent:{tag}:HOST:SET``                       string  filter; ring of recent values, expires
``names:{tag}:HOST:SET``                        string  filter; merged table (JSON), expires
``rejected:{tag}``                              stream  filter; why an entry is no frame (``acquisition.wire.rejected``)
``refused:{tag}``                               stream  filter; the bytes of these entries
``status:{tag}:HOST``                           string  probe; its own account (JSON), expires
``lease:{tag}``                                 string  filter; the worker that smooths it, expires
``began:{tag}``                                 string  shards up: 0; filter: when it found nothing there, in ms
``workers:{tag}``                               zset    filter; workers that could, score: until when, in ms
``readers:{tag}``                               hash    other readers of ``raw``; name -> ``acquisition.wire.readers``
``archived:{tag}``                              string  archive; its books (``acquisition.wire.archived``), expires
``archiver:{tag}``                              string  archive; the archiver that follows it, expires
``archivers:{tag}``                             zset    archive; archivers that could, score: until when, in ms
``cut:{tag}``                                   string  who trims; what a living reader was not left
``events:{tag}``                                stream  services, archive; ``acquisition.link.happenings``, expires
``told:{tag}``                                  hash    the same; what was reported last by its subject, expires
``shardpulse:migrations``                       stream  schedulers, through the query service; migrations
``shardpulse:settled``                          hash    readers; host -> ms, when a migration was seen to end, expires
``shardpulse:operating``                        string  operators; who changes the cluster now, expires
``layout:{copy}``                               string  shards up, form; ``acquisition.wire.layout``
==============================================  ======  =====================================

The layout has a copy in each of 64 stripes of the slots, which move with them, so that it can be read while a shard is
dead. HOST is the host id in 16 hex digits, SET the resource set id in 8, SLOT the tick
modulo the number of kept ticks.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from functools import cache

SLOTS = 16384
MIGRATIONS = "shardpulse:migrations"
SETTLED = "shardpulse:settled"
OPERATING = "shardpulse:operating"
DEFAULT_PARTITIONS = 64
DEFAULT_KEEP_TICKS = 3
ENTRY_FIELD = b"f"
SIGNATURE_FIELD = b"s"  #: after it, if hosts sign (acquisition.wire.signature)
_MEMBER = re.compile(rb"([0-9a-f]{16}):([0-9a-f]{8})")


def slot_of(key: str) -> int:
    """Cluster slot of a key (CRC-16/XMODEM of its hash tag, Redis Cluster specification)."""
    start = key.find("{")
    if start >= 0:
        end = key.find("}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key.encode(), 0) % SLOTS


@cache
def tags(partitions: int) -> tuple[str, ...]:
    """Hash tags of all partitions: tag p is in the p-th of ``partitions`` equal
    stripes of the slots, so that any even split of the slots splits the partitions evenly."""
    if not 1 <= partitions <= SLOTS:
        raise ValueError(f"expected 1 to {SLOTS} partitions, got {partitions}")
    found = []
    for partition in range(partitions):
        low, high = partition * SLOTS // partitions, (partition + 1) * SLOTS // partitions
        attempt = 0
        while not low <= crc_hqx(f"{partition}.{attempt}".encode(), 0) % SLOTS < high:
            attempt += 1
        found.append(f"{partition}.{attempt}")
    return tuple(found)


@cache
def layouts() -> tuple[str, ...]:
    """Copies of the layout, for any number of partitions."""
    return tuple(f"layout:{{{tag}}}" for tag in tags(DEFAULT_PARTITIONS))


@cache
def layout_slots() -> tuple[int, ...]:
    """Slot of each copy."""
    return tuple(map(slot_of, layouts()))


def layouts_beside(partition: int, partitions: int) -> list[str]:
    """Copies with slots in the stripe of a partition."""
    stripe = range(partition * SLOTS // partitions, (partition + 1) * SLOTS // partitions)
    return [copy for copy, slot in zip(layouts(), layout_slots(), strict=True) if slot in stripe]


def partition_of(host: int, partitions: int) -> int:
    """Partition of a host id."""
    return host % partitions


def raw(tag: str) -> str:
    """Raw stream of a partition."""
    return f"raw:{{{tag}}}"


def commit(tag: str) -> str:
    """Commit id and cursor of a partition."""
    return f"commit:{{{tag}}}"


def applied(tag: str) -> str:
    """Hash of the applied positions of a partition."""
    return f"applied:{{{tag}}}"


def dormant(tag: str) -> str:
    """Hash of the last positions of sets that expired after a long silence, and of hosts."""
    return f"dormant:{{{tag}}}"


def member(host: int, resource_set: int) -> str:
    """Field of ``applied`` and the middle of ``smoothed`` and ``names``: HOST:SET."""
    return f"{host:016x}:{resource_set:08x}"


def parse_member(field: bytes) -> tuple[int, int] | None:
    """Host and resource set in a field made by ``member``; None for any other field."""
    found = _MEMBER.fullmatch(field)
    return None if found is None else (int(found[1], 16), int(found[2], 16))


def smoothed(tag: str, host: int, resource_set: int, slot: int) -> str:
    """One kept tick of the smoothed state of a resource set."""
    return f"smoothed:{{{tag}}}:{host:016x}:{resource_set:08x}:{slot}"


def recent(tag: str, host: int, resource_set: int) -> str:
    """Recent raw values of a resource set."""
    return f"recent:{{{tag}}}:{host:016x}:{resource_set:08x}"


def names(tag: str, host: int, resource_set: int) -> str:
    """Table (names of entities and metrics) of a resource set."""
    return f"names:{{{tag}}}:{host:016x}:{resource_set:08x}"


def rejected(tag: str) -> str:
    """Rejected entries of the raw stream, with their reason."""
    return f"rejected:{{{tag}}}"


def refused(tag: str) -> str:
    """Bytes of these entries."""
    return f"refused:{{{tag}}}"


def status(tag: str, host: int) -> str:
    """The probe's own account of samples made and sent."""
    return f"status:{{{tag}}}:{host:016x}"


def began(tag: str) -> str:
    """Since when a partition holds its data: absent in a shard that has come back empty."""
    return f"began:{{{tag}}}"


def lease(tag: str) -> str:
    """Key of the lease of a partition: its filter worker."""
    return f"lease:{{{tag}}}"


def workers(tag: str) -> str:
    """Live filter workers with access to a partition."""
    return f"workers:{{{tag}}}"


def readers(tag: str) -> str:
    """Claims of readers of the raw stream beside the filter."""
    return f"readers:{{{tag}}}"


def cut(tag: str) -> str:
    """Mark of the newest trim that did not wait for a living reader."""
    return f"cut:{{{tag}}}"


def archived(tag: str) -> str:
    """Key of the archive's account of each resource set of a partition."""
    return f"archived:{{{tag}}}"


def archiver(tag: str) -> str:
    """Key of the archive's lease of a partition: its archiver."""
    return f"archiver:{{{tag}}}"


def archivers(tag: str) -> str:
    """Live archivers with access to a partition."""
    return f"archivers:{{{tag}}}"


def events(tag: str) -> str:
    """Key of the events of a partition and of its hosts."""
    return f"events:{{{tag}}}"


def told(tag: str) -> str:
    """Key of the last reported states, by subject."""
    return f"told:{{{tag}}}"
