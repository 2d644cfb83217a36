"""Heat map document: all hosts by columns, a few bytes per host and tick.

Names rarely change and are sent separately from values (the roster): ten thousand hosts are 150 kB a tick.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from acquisition.model import ticks
from acquisition.model.metric import HOST_SET
from acquisition.snapshot.values.block import Block, finite
from acquisition.snapshot.values.inputs import InputsTable
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE, UNKNOWN
from acquisition.wire.records.planes import MEAN
from filters.decisions import ratios
from filters.decisions.picture import CPU, MEMORY, NETWORK, VALID, Host, Picture, Reading
from filters.decisions.verdict import Outcome, Verdict

# -- The load of all hosts at once: three moving averages each, without the readings that rules use.
#
# A heat map requests ten thousand hosts at every tick, so only means are read: the filter's own derived figures
# if it has them, otherwise the formulas of ``filters.decisions.ratios`` over the means of the host's row.

#: Ratio of the capacity of a host by metric (CPU, MEMORY, NETWORK); unknown ones are absent.
Load = Mapping[str, float]


def loads(blocks: Iterable[Block], tables: Mapping[Owner, InputsTable]) -> dict[str, Load]:
    """Load by host id in 16 hex digits, of current hosts only: the load of others is unknown, not 0."""
    return {
        f"{block.host_id:016x}": _load(block, tables.get((block.host_id, block.set_id)))
        for block in blocks
        if block.resource_set == HOST_SET and block.state == CURRENT and block.raw_ids
    }


def _load(block: Block, table: InputsTable | None) -> Load:
    found, means = {}, None
    for metric in (CPU, MEMORY, NETWORK):
        derived = table.derived(0, metric) if table is not None and table.rows else None
        if derived is not None:
            old = derived.stale_seconds is None or derived.stale_seconds > ticks.stale_after(block.interval)
            mean = None if old else derived.mean
        else:
            means = _means(block) if means is None else means
            reading = means.get(metric) or ratios.HOST[metric](means)
            mean = None if reading is None else reading.mean
        if mean is not None:
            found[metric] = mean
    return found


def _means(block: Block) -> dict[str, Reading]:
    row = block.shown(MEAN)[0].tolist()
    return {
        metric.name: Reading(metric.name, finite(mean), validity=VALID)
        for metric, mean in zip(block.metrics, row, strict=True)
    }


STATES = {CURRENT: "c", LATE: "l", UNKNOWN: "u", DOWN: "d"}
_OUTCOMES = {Outcome.HOT: "h", Outcome.SUSPECT: "s", Outcome.SATURATED: "b", Outcome.ABSTAINED: "a"}
_UNKNOWN, _NOT_HOT = "?", "n"
_PER_MILLE = 1000.0


class RosterDocument(Struct, frozen=True):
    """Hosts by name: ``names[i]`` and ``ids[i]`` belong to position i of every heat
    document with the same ``roster``."""

    tick: int
    now: float
    roster: str
    ids: list[str]
    names: list[str]


class HeatDocument(Struct, frozen=True):
    """One value per host and column, in the order of the roster. ``states`` has a letter per host: c current, l late,
    u unknown, d down; ``outcomes``: h hot, s suspect, b saturated (busy), n not_hot, a abstained, ? not judged.
    ``blind`` says why no host could be judged, as in /v1/hot. Ratios are moving averages in
    thousandths of the host's capacity, null where missing; ``age_seconds`` counts to ``now``."""

    tick: int
    now: float
    errors: list[str]
    blind: str
    roster: str
    states: str
    outcomes: str
    cpu: list[int | None]
    memory: list[int | None]
    network: list[int | None]
    age_seconds: list[float | None]


def in_order(picture: Picture) -> list[Host]:
    """Hosts in the order of both documents."""
    return sorted(picture.hosts, key=lambda host: (host.name, host.id))


def roster_document(number: int, picture: Picture) -> RosterDocument:
    """Names and ids."""
    hosts = in_order(picture)
    return RosterDocument(
        number, round(picture.now, 6), roster_of(hosts), [host.id for host in hosts], [host.name for host in hosts]
    )


def heat_document(
    number: int, picture: Picture, verdicts: Mapping[str, Verdict], known: Mapping[str, Load], blind: str = ""
) -> HeatDocument:
    """Values. By host id: ``verdicts`` of the configured rule, and ``known`` load of current hosts;
    ``blind``: reason no host could be judged, even if hosts are visible."""
    hosts = in_order(picture)
    return HeatDocument(
        number,
        round(picture.now, 6),
        list(picture.errors),
        picture.blind or blind,
        roster_of(hosts),
        "".join(STATES.get(host.state, _UNKNOWN) for host in hosts),
        "".join(_outcome(verdicts.get(host.id)) for host in hosts),
        _column(hosts, CPU, known),
        _column(hosts, MEMORY, known),
        _column(hosts, NETWORK, known),
        [None if host.age_seconds is None else round(host.age_seconds, 1) for host in hosts],
    )


def roster_of(hosts: Iterable[Host]) -> str:
    """A token that changes when hosts or their names do."""
    digest = hashlib.blake2b(digest_size=8)
    for host in hosts:
        digest.update(f"{host.id}{host.name}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _outcome(verdict: Verdict | None) -> str:
    return _UNKNOWN if verdict is None else _OUTCOMES.get(verdict.outcome, _NOT_HOT)


def _column(hosts: Sequence[Host], metric: str, known: Mapping[str, Load]) -> list[int | None]:
    means = (known.get(host.id, {}).get(metric) for host in hosts)
    return [None if mean is None else round(mean * _PER_MILLE) for mean in means]
