"""Scrape: a snapshot and the pipeline's health as text, by family (pure)."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from acquisition import __version__
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.inputs import InputsTable
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.states import CURRENT, LATE, STATES
from acquisition.status.health import Health
from filters.prometheus import entities, inputs, pipeline, samples, sets, syntax
from filters.prometheus.naming import FIGURES
from filters.prometheus.rows import Prepared, families, host_names, set_names
from filters.prometheus.samples import Options
from filters.prometheus.syntax import GAUGE, INFO, OPENMETRICS, Family, Filled, Series, Syntax

Tables = Mapping[Owner, InputsTable]
Outcomes = Mapping[str, Sequence[int]]  #: numbers of hosts by outcome of the rule, all outcomes
_WELL = "not_hot"

BUILD = Family("shardpulse_build", INFO, "The version of shardpulse that answers", labels=("version",))
SNAPSHOT = Family("shardpulse_snapshot", INFO, "Which reading this is: coherent or latest", labels=("reading",))
READ_AT = Family("shardpulse_snapshot_timestamp_seconds", GAUGE, "When it was read, seconds since 1970", "seconds")
ERRORS = Family(
    "shardpulse_snapshot_errors",
    GAUGE,
    "Data that could not be read: shards, tables, positions; reasons why hosts are not visible",
)
DAMAGED = Family("shardpulse_snapshot_damaged_records", GAUGE, "Invalid records in the shards")
BLIND = Family("shardpulse_snapshot_blind", GAUGE, "1: no host is visible; the absence of alarms means nothing then")
HOSTS = Family(
    "shardpulse_snapshot_hosts", GAUGE, "Hosts by state (the worst of their resource sets) and cause",
    labels=("state", "cause"),
)  # fmt: skip
VERDICTS = Family("shardpulse_snapshot_verdicts", GAUGE, "Hosts by outcome of the rule in use", labels=("outcome",))
VERDICT = Family(
    "shardpulse_snapshot_verdict",
    GAUGE,
    "1 for each host that is judged other than not_hot",
    labels=("host", "outcome"),
)
UNNAMED = Family("shardpulse_snapshot_unnamed_sets", GAUGE, "Resource sets omitted until their table arrives")


def render(
    snapshot: Snapshot,
    health: Health | None = None,
    options: Options | None = None,
    form: Syntax = OPENMETRICS,
    prepared: Prepared | None = None,
    tables: Tables | None = None,
    outcomes: Outcomes | None = None,
) -> bytes:
    """The whole answer, UTF-8.

    ``snapshot`` is a coherent reading by choice: Prometheus gives all samples of a scrape one time, so they
    should be of one tick. Samples carry no timestamps, but an age. Without ``health`` the families of the
    pipeline are absent. ``prepared`` caches label texts between calls. ``tables``: decision inputs of the
    snapshot's blocks (``SnapshotReader.inputs``); without them their families are absent. ``outcomes``: those of
    a service, which judges; None: their families are absent.
    """
    text = io.BytesIO()  # joining megabytes at once would block the other threads of a server
    for piece in chunks(snapshot, health, options, form, prepared, tables, outcomes):
        text.write(piece.encode())
    return text.getvalue()


def chunks(
    snapshot: Snapshot,
    health: Health | None = None,
    options: Options | None = None,
    form: Syntax = OPENMETRICS,
    prepared: Prepared | None = None,
    tables: Tables | None = None,
    outcomes: Outcomes | None = None,
) -> Iterator[str]:
    """The answer of ``render`` in pieces of at most one family, for a server that sends while it renders."""
    pieces = _pieces(snapshot, health, options or Options(), form, prepared or Prepared(), tables or {}, outcomes)
    yield next(pieces, "").removeprefix("\n")
    yield from pieces
    yield form.ending + "\n"


def _pieces(
    snapshot: Snapshot,
    health: Health | None,
    options: Options,
    form: Syntax,
    prepared: Prepared,
    tables: Tables,
    outcomes: Outcomes | None,
) -> Iterator[str]:
    blocks = snapshot.blocks
    prepared.forget(blocks)
    hosts, resource_sets = host_names(blocks), set_names(blocks)
    yield from _written(_of_snapshot(snapshot), form)
    if outcomes is not None:
        yield from _written(_verdicts(outcomes, hosts), form)
    if health is not None:
        yield from _written(pipeline.families(health, hosts, resource_sets), form)
    yield from _written(sets.families(blocks, hosts, resource_sets), form)
    who = entities.families(blocks, hosts, resource_sets, snapshot.placements, options.entities)
    yield from _written(who, form)
    found = samples.sheets(blocks, hosts, resource_sets, prepared, options)
    known = inputs.groups(found, tables)
    more = chain(inputs.invalid_of_derived(known), samples.late(blocks, hosts, resource_sets, prepared))
    yield from _written(samples.invalid(found, more), form)
    exposed = inputs.exposed(known, options)
    yield from _written(inputs.of_sets(exposed), form)
    yield from _written(inputs.thresholds(exposed), form)
    smoothed = chain(samples.batches(found), inputs.derived_batches(known, options))
    for family, texts in chain(families(smoothed, FIGURES, samples.family_of), inputs.figures(exposed)):
        yield from _begun(syntax.head(family, form), texts)


def _begun(head: str, texts: Iterable[str]) -> Iterator[str]:
    """The head and the text of its series, if there are any."""
    for text in filter(None, texts):
        yield head + text
        head = ""


def _written(families: Iterable[Filled], form: Syntax) -> Iterator[str]:
    """Families with at least one series."""
    for family, series in families:
        text = syntax.lines(family, series)
        if text:
            yield syntax.head(family, form) + text


def _of_snapshot(snapshot: Snapshot) -> list[Filled]:
    unnamed = sum(block.has_values and not samples.is_named(block) for block in snapshot.blocks)
    return [
        (BUILD, [(syntax.labels(BUILD.labels, (__version__,)), 1)]),
        (SNAPSHOT, [(syntax.labels(SNAPSHOT.labels, (snapshot.reading,)), 1)]),
        (READ_AT, [("", snapshot.now)]),
        (ERRORS, [("", len(snapshot.errors))]),
        (BLIND, [("", int(bool(snapshot.blind)))]),
        (HOSTS, _by_state(snapshot)),
        (DAMAGED, [("", snapshot.damaged)]),
        (UNNAMED, [("", unnamed)]),
    ]


def _verdicts(outcomes: Outcomes, hosts: Mapping[int, str]) -> list[Filled]:
    counts = [(syntax.labels(VERDICTS.labels, (outcome,)), len(found)) for outcome, found in outcomes.items()]
    shown = [
        (syntax.labels(VERDICT.labels, (hosts[host], outcome)), 1)
        for outcome, found in outcomes.items()
        for host in found
        if outcome != _WELL and host in hosts
    ]
    return [(VERDICTS, counts), (VERDICT, sorted(shown))]


def _by_state(snapshot: Snapshot) -> list[Series]:
    """Number of hosts by state; states without a cause are always included, as 0 is a fact here."""
    worst: dict[int, tuple[int, str]] = {}
    for block in snapshot.blocks:
        standing = (STATES.index(block.state), block.cause)
        worst[block.host_id] = max(standing, worst.get(block.host_id, standing))
    counts = dict.fromkeys([(STATES.index(state), "") for state in (CURRENT, LATE)], 0) | Counter(worst.values())
    return [(syntax.labels(HOSTS.labels, (STATES[n], cause)), count) for (n, cause), count in sorted(counts.items())]
