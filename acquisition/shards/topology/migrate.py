"""Migration of slots between masters under load, and repair after interruption.

Per group of slots: SETSLOT IMPORTING at the target, SETSLOT MIGRATING at the source, MIGRATE of the keys,
SETSLOT NODE at the target, the source and the other masters (Redis Cluster specification, "live
resharding"). A partition's keys move with one MIGRATE, executed by both nodes as one command, so clients find
all of them on one side or all on the other; it blocks both nodes for 4 to 8 ms per megabyte
(docs/decisions/0014). From MIGRATING on the source creates no key in the slot (it answers ASK), so the rest
there only shrinks, and a key that is on both sides after an interrupted MIGRATE is current at the source:
REPLACE is safe. SETSLOT NODE is refused while the source still holds keys.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from acquisition import signals
from acquisition.errors import FrameError, ShardError, ShardpulseError, TemporaryError, UnavailableError
from acquisition.link.resp import ReplyError, raise_for
from acquisition.shards.topology.nodes import Command, Members, Node, memory, owners
from acquisition.shards.topology.reshard import Move
from acquisition.wire import keys, position, readers
from acquisition.wire.readers import Cut
from acquisition.wire.stream_id import is_before

# -- Dropping frames of a heavy partition before a move: those its filter has committed are in the smoothed state.


def trim_smoothed(members: Members, node: str, slot: int, patient: bool, asking: bool = False) -> None:
    """Drop frames of a slot's raw streams that their filter has committed.

    ``patient``: those still needed by other living readers stay; otherwise readers find a mark of the cut. ``asking``:
    the slot is being moved to this node.
    """
    first: list[Command] = [("ASKING",)] if asking else []

    def ask(command: Command) -> Any:
        return members.pipeline(node, [*first, command])[-1]

    for name in members.keys(node, slot):
        if name.startswith(b"commit:{"):
            tag = name.decode()[len("commit:{") : -1]
            with contextlib.suppress(FrameError):  # a damaged commit does not show what is smoothed
                value = ask(("GET", keys.commit(tag)))
                cursor = position.decode_commit(value if isinstance(value, bytes) else b"").cursor
                claim = _claim(ask(("HGETALL", keys.readers(tag))), ask(("TIME",)))
                wanted = claim is not None and is_before(claim, cursor)
                gone = ask(("XTRIM", keys.raw(tag), "MINID", claim if patient and wanted else cursor))
                if wanted and not patient and isinstance(gone, int) and gone:
                    ask(("SET", keys.cut(tag), readers.encode_cut(Cut(cursor, gone))))


def _claim(fields: Any, clock: Any) -> bytes | None:
    return readers.oldest_claim(fields, clock) if isinstance(fields, list) and isinstance(clock, list) else None


_MIGRATE_BYTES = 64 << 20  #: per MIGRATE: bounds how long two shards stand still
_TRIM_BYTES = 32 << 20  #: size of a partition above which already smoothed frames are left behind
_IDLE_MS = 5000  #: wait of MIGRATE for its target
_COMMAND_SECONDS = 60.0
_RETRY_SECONDS = 20.0  #: for a full target to free memory
_GONE_SECONDS = 3.0  #: for a target that is gone
_KNOWN_SECONDS = 15.0  #: for gossip to reach every replica, which takes a second or two
_KNOWN_PAUSE = 0.1
_FULL = 0.95  #: of maxmemory: limit for a move
_REFRESH_READERS = 8

Report = Callable[[str], None]


class Moved(NamedTuple):
    """Progress of a migration; ``longest`` is the longest pause of two shards, in seconds."""

    partitions: int = 0
    keys: int = 0
    bytes: int = 0
    longest: float = 0.0


class Mover:
    """Moves slots between ``members``. ``report`` gets a line per partition; ``pause`` is the time for the shards
    to serve their clients between two partitions, as a multiple of the time they stood still."""

    def __init__(self, members: Members, report: Report, pause: float = 1.0) -> None:
        self._members = members
        self._report = report
        self._pause = pause
        self._readers: dict[str, tuple[int, list[bytes]]] = {}
        self._ports: dict[str, int] = {}  #: where each shard accepts keys
        self._masters: list[str] = []
        self.moved = Moved()

    def look(self) -> list[Node]:
        """The present members that own slots or may learn of every move."""
        nodes = self._members.look()
        self._masters = [node.id for node in nodes if not node.master]
        return nodes

    def run(self, moves: Sequence[Move]) -> Moved:
        """Carry out ``moves`` in order. Raises TemporaryError if a target is full, ShardError if a shard
        fails; what was moved stays moved, and the same plan made again continues from there."""
        for number, move in enumerate(moves, 1):
            self.carry_out(move, f"({number} of {len(moves)})")
        self._wait_until_all_know()
        return self.moved

    def _wait_until_all_know(self) -> None:
        """Wait until every member, replicas too, has the same slot map.

        Replicas learn of moved slots by gossip alone. One that takes over from its dead master before that
        claims them with a newer epoch, and the shard that holds them removes all their keys (measured: 2 of 200 keys).
        """
        deadline = time.monotonic() + _KNOWN_SECONDS
        while len(maps := {str(sorted(each.items())) for each in self._maps()}) > 1:
            if time.monotonic() > deadline:
                raise TemporaryError(
                    f"shards have {len(maps)} different slot maps {_KNOWN_SECONDS:.0f} s after the last "
                    "move; a failover now could undo moves; run `shardpulse shards balance` to check again"
                )
            time.sleep(_KNOWN_PAUSE)

    def _maps(self) -> list[dict[str, list[int]]]:
        """Slot owners, as seen by every member that answers."""
        found = []
        for node in self.look():
            with contextlib.suppress(ShardError, TemporaryError):  # one that is gone cannot take over
                known = self._members.owners_known_to(node.id)
                found.append({owner: sorted(slots) for owner, slots in known.items()})
        return found

    def carry_out(self, move: Move, place: str = "") -> None:
        """Move the slots of one stripe: first those without keys, all at once, then those with keys, one by one."""
        counts = self._members.all(move.source, [("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in move.slots])
        full = [slot for slot, count in zip(move.slots, counts, strict=True) if count]
        empty = [slot for slot, count in zip(move.slots, counts, strict=True) if not count]
        before, seconds = self.moved, 0.0
        for group in ([empty] if empty else []) + [[slot] for slot in full]:
            seconds = max(seconds, self._hand_over(move.source, move.target, group))
        count, size = self.moved.keys - before.keys, self.moved.bytes - before.bytes
        self.moved = self.moved._replace(partitions=self.moved.partitions + 1)
        self._report(
            f"partition {move.partition}: {self._members.place(move.source)} -> "
            f"{self._members.place(move.target)}, {len(move.slots)} slots, {count} keys, {size / 2**20:.1f} MiB, "
            f"paused {1000 * seconds:.0f} ms {place}"
        )
        time.sleep(min(1.0, self._pause * seconds))

    # ---------------------------------------------------------------- one group of slots

    def _hand_over(self, source: str, target: str, slots: Sequence[int]) -> float:
        """Move a group of slots; returns for how many seconds no shard could serve its clients."""
        for slot in slots if len(slots) == 1 else ():
            self._make_room(source, target, slot)
        readers = self._waiting_readers(source)
        began = time.monotonic()
        try:
            with signals.deferred():  # Ctrl-C comes between two groups
                moved = self._move_open(source, target, slots)
        except ShardpulseError:
            self._take_back(source, target, slots)
            raise
        seconds = time.monotonic() - began
        if moved:
            self._members.pipeline(source, readers)
            self.moved = self.moved._replace(longest=max(self.moved.longest, seconds))
        return seconds if moved else 0.0

    def _move_open(self, source: str, target: str, slots: Sequence[int]) -> bool:
        """Move a group of open slots; returns whether there were any keys."""
        self._open(source, target, slots)
        counts = self._members.all(source, [("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots])
        for slot, count in zip(slots, counts, strict=True):
            if count:
                self._migrate(source, target, slot)
        self.declare(target, slots, first=source)
        return any(counts)

    def _take_back(self, source: str, target: str, slots: Sequence[int]) -> None:
        """After a failure, close the slots without any key at the target; the others stay open, for
        ``mend``. While a slot is open the source creates no key in it, so that its filter waits."""
        with contextlib.suppress(ShardpulseError):
            for slot in slots:
                self._members.call(source, "CLUSTER", "SETSLOT", slot, "STABLE")
                if self._members.call(target, "CLUSTER", "COUNTKEYSINSLOT", slot):
                    self._members.call(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
                else:
                    self._members.call(target, "CLUSTER", "SETSLOT", slot, "STABLE")

    def _open(self, source: str, target: str, slots: Sequence[int]) -> None:
        commands = [("CLUSTER", "SETSLOT", slot, "IMPORTING", source) for slot in slots]
        for reply in self._members.pipeline(target, commands):
            if isinstance(reply, ReplyError) and "already the owner" not in str(reply):
                raise_for(reply, self._members.place(target))
        self._members.all(source, [("CLUSTER", "SETSLOT", slot, "MIGRATING", target) for slot in slots])

    def declare(self, owner: str, slots: Sequence[int], first: str = "") -> None:
        """Announce the owner of ``slots`` to every master: to the owner first, so that no redirection leads nowhere."""
        commands = [("CLUSTER", "SETSLOT", slot, "NODE", owner) for slot in slots]
        self._members.all(owner, commands)
        if first:
            self._members.all(first, commands)
        for master in self._masters:
            if master not in (owner, first):  # these also learn it by gossip: one that is down holds nothing up
                try:
                    self._members.pipeline(master, commands)
                except ShardError:
                    self._members.drop(self._members.place(master))

    def _migrate(self, source: str, target: str, slot: int) -> None:
        """MIGRATE until the source holds no key of the slot; waits for a full or slow target."""
        began = time.monotonic()
        while True:
            batch, size = self._batch(source, slot)
            if not batch:
                return
            reply = self._members.pipeline(source, [self._migrate_command(target, batch)], _COMMAND_SECONDS)[0]
            if isinstance(reply, ReplyError):
                self._wait_or_fail(reply, source, target, slot, time.monotonic() - began)
                continue
            self.moved = self.moved._replace(keys=self.moved.keys + len(batch), bytes=self.moved.bytes + size)

    def _migrate_command(self, target: str, batch: Sequence[bytes]) -> tuple[str | int | bytes, ...]:
        place, credentials = self._members.place(target), self._members.credentials
        command: tuple[str | int | bytes, ...] = ("MIGRATE", place.host, self._port(target), "", 0, _IDLE_MS, "REPLACE")
        if credentials is not None and credentials.password:
            command += ("AUTH2", credentials.username, credentials.secret())
        return (*command, "KEYS", *batch)

    def _wait_or_fail(self, reply: ReplyError, source: str, target: str, slot: int, waited: float) -> None:
        text = str(reply)
        passing = text.startswith("IOERR") or any(
            word in text for word in ("OOM", "LOADING", "BUSY", "NOREPLICAS", "CLUSTERDOWN")
        )
        where = f"slot {slot} from {self._members.place(source)} to {self._members.place(target)}"
        if not passing:
            raise ShardError(f"{where}: {text}")
        if waited > (_GONE_SECONDS if text.startswith("IOERR") else _RETRY_SECONDS):
            raise TemporaryError(
                f"{where} is partly moved: {text}; no data is lost, `shardpulse shards balance` resumes"
            )
        if "OOM" in text:
            trim_smoothed(self._members, target, slot, patient=False, asking=True)
        time.sleep(0.2)

    def _port(self, target: str) -> int:
        """Where a shard accepts keys: with TLS on the cluster bus MIGRATE uses TLS as well."""
        if target not in self._ports:
            answers = self._members.all(target, [("CONFIG", "GET", "tls-cluster"), ("CONFIG", "GET", "tls-port")])
            secured = answers[0][1:] == [b"yes"]  # a server without TLS knows neither
            self._ports[target] = int(answers[1][1]) if secured else self._members.place(target).port
        return self._ports[target]

    def _batch(self, source: str, slot: int) -> tuple[list[bytes], int]:
        """The next keys of a slot to move together, and their size: all, unless that would be too much."""
        found = self._members.keys(source, slot)
        weights = self._members.weights(source, found)
        taken = size = 0
        while taken < len(found) and (not taken or size + weights[taken] <= _MIGRATE_BYTES):
            size += weights[taken]
            taken += 1
        return found[:taken], size

    # ---------------------------------------------------------------- room and readers

    def _make_room(self, source: str, target: str, slot: int) -> None:
        """Trim a heavy partition behind its filter and its other readers, behind its filter alone if necessary,
        and refuse a move that does not fit the target.

        An arriving value is in the target's receive buffer beside its final form: twice its size.
        """
        size = self._members.weigh(source, [slot])
        used, limit = memory(self._members, target)
        for patient in (True, False):
            too_much = limit and used + 2 * size > _FULL * limit
            if size > _TRIM_BYTES if patient else too_much:
                trim_smoothed(self._members, source, slot, patient)
                size = self._members.weigh(source, [slot])
        if limit and used + 2 * size > _FULL * limit:
            raise TemporaryError(
                f"shard {self._members.place(target)} has no room for slot {slot}: {used / 2**20:.0f} of "
                f"{limit / 2**20:.0f} MiB used, {2 * size / 2**20:.0f} needed; the slot was not moved"
            )

    def _waiting_readers(self, source: str) -> list[tuple[str, ...]]:
        """Commands that end the wait of every XREAD at the source.

        A reader waiting for a key that has moved away learns of it only when its turn comes in the shard's
        housekeeping, up to a second later; ended as if by its own time limit, it reads again and is redirected at once.
        """
        uses, ids = self._readers.get(source, (0, []))
        if uses % _REFRESH_READERS == 0:  # listing ten thousand clients takes a shard tens of milliseconds
            lines = self._members.call(source, "CLIENT", "LIST", "TYPE", "normal").splitlines()
            ids = [line.split()[0].partition(b"=")[2] for line in lines if b" cmd=xread " in line]
        self._readers[source] = (uses + 1, ids)
        return [("CLIENT", "UNBLOCK", number.decode(), "TIMEOUT") for number in ids]

    # ---------------------------------------------------------------- mending

    def mend(self, partitions: int) -> list[int]:
        """Finish every interrupted handover, forwards; returns the slots.

        The source is the owner of the slot (of two that claim it, the higher epoch), and its data are current.
        """
        nodes = self.look()
        owner = owners(nodes)
        opened = sorted({slot for node in nodes for slot in (*node.migrating, *node.importing)})
        groups: dict[tuple[str, str], list[int]] = {}
        for slot in opened:
            if slot in owner:
                groups.setdefault((owner[slot], self._destination(nodes, slot, owner[slot])), []).append(slot)
        for (source, target), slots in groups.items():
            if target:
                self.carry_out(Move(slots[0] * partitions // keys.SLOTS, source, target, tuple(slots)), "(resumed)")
            self._close(nodes, slots)
        return opened

    def _destination(self, nodes: Sequence[Node], slot: int, source: str) -> str:
        """Destination of a slot; "" if it has arrived, or if that master was forgotten.

        A target that has failed over left its mark behind, but not its keys. Raises UnavailableError for one
        that does not answer: its part of the slot would be given up.
        """
        importing = [node.id for node in nodes if slot in node.importing]
        wanted = [node.migrating[slot] for node in nodes if node.id == source and slot in node.migrating]
        masters = {node.id: node.master or node.id for node in nodes}
        mentioned = {mention.id for mention in self._members.mentions}
        holding = [name for name in self._masters if self._members.call(name, "CLUSTER", "COUNTKEYSINSLOT", slot)]
        for name in [*importing, *(masters.get(name, name) for name in wanted), *holding]:
            if name != source and name in self._masters:
                return name
        if any(name in mentioned and not self._members.knows(name) for name in wanted):
            raise UnavailableError(
                f"slot {slot} is partly moved to a shard that does not answer; start that shard first"
            )
        return ""

    def _close(self, nodes: Sequence[Node], slots: Sequence[int]) -> None:
        """Remove the marks of slots that are no longer being moved."""
        for node in nodes:
            left = [slot for slot in slots if slot in node.migrating or slot in node.importing]
            if left and not node.master:
                self._members.all(node.id, [("CLUSTER", "SETSLOT", slot, "STABLE") for slot in left])
