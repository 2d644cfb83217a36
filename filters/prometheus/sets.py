"""Resource set metric families: currency, age and completeness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from acquisition.model import codes
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import CURRENT, DOWN, UNKNOWN
from filters.prometheus import syntax
from filters.prometheus.rows import SET
from filters.prometheus.syntax import COUNTER, GAUGE, Family, Filled, Series

Figure = Callable[[Block], float | int | None]


def _count(name: str) -> Figure:
    """A count of the applied position, None if absent."""
    return lambda block: None if block.position is None else int(getattr(block.position, name))


def _clock_offset(block: Block) -> float | None:
    """Seconds by which the host's clock is ahead of the filter's; None while no record shows it."""
    return None if block.head is None else block.wall - block.filtered


def _shedding(block: Block) -> int | None:
    return None if block.position is None else int(block.quality.sheds)


#: Properties of a block, one family each.
FIGURES: tuple[tuple[Family, Figure], ...] = tuple(
    (Family(f"shardpulse_set_{name}", kind, text, unit, SET), figure)
    for name, kind, unit, text, figure in (
        ("current", GAUGE, "", "1: the due tick is available; 0: it is late, or the host is unknown or down",
         lambda block: int(block.state == CURRENT)),
        ("unknown", GAUGE, "", "1: the state of the host is unknown: it is not visible, or its probe was stopped",
         lambda block: int(block.state == UNKNOWN)),
        ("down", GAUGE, "", "1: no data from the host for longer than [snapshot] down_after_seconds, while "
            "its neighbours send",
         lambda block: int(block.state == DOWN)),
        ("age_seconds", GAUGE, "seconds", "Time since the newest readable samples were taken",
         lambda block: block.age_seconds),
        ("interval_seconds", GAUGE, "seconds", "Time between two samples",
         lambda block: block.interval or None),
        ("entities", GAUGE, "", "Hosts, processes or VMs in the newest samples", lambda block: block.shape[0]),
        ("clock_offset_seconds", GAUGE, "seconds",
         "Sampling time by the host's clock less the time by the filter's clock when it had the samples: above 0 the "
         "host's clock is ahead, far below 0 it is behind or the samples waited", _clock_offset),
        ("applied_samples", COUNTER, "", "Samples applied by the filter in this epoch", _count("applied")),
        ("invalid_samples", COUNTER, "", "Applied samples that failed a check", _count("invalid")),
        ("lost_samples", COUNTER, "", "Samples dropped by the probe before the filter received them",
         _count("lost")),
        ("duplicate_frames", COUNTER, "", "Frames dropped as duplicates", _count("duplicates")),
        ("refused_frames", COUNTER, "", "Frames refused because an older frame was missing", _count("refused")),
        ("gaps", COUNTER, "", "Gaps of unknown size: a host lost its ring (power failure?)", _count("gaps")),
        ("shedding", GAUGE, "", "1: the probe drops ticks, because the pipeline is overloaded",
         _shedding),
    )
)  # fmt: skip
SAMPLES = Family(
    "shardpulse_set_samples", GAUGE, "Samples at the newest tick by validity; absent while there are no values",
    labels=(*SET, "validity"),
)  # fmt: skip


def families(blocks: Sequence[Block], hosts: Mapping[int, str], sets: Mapping[int, str]) -> list[Filled]:
    """All families; ``hosts`` and ``sets`` are labels by number."""
    texts = [syntax.labels(SET, (hosts[block.host_id], sets[block.set_id])) for block in blocks]
    found: list[Filled] = [
        (family, [(text, figure(block)) for text, block in zip(texts, blocks, strict=True)])
        for family, figure in FIGURES
    ]
    pairs = zip(texts, blocks, strict=True)
    found.append((SAMPLES, [row for text, block in pairs for row in _by_validity(text, block)]))
    return found


def _by_validity(text: str, block: Block) -> list[Series]:
    """Number of samples by code; VALID always, as 0 is a fact here."""
    if not block.has_values:
        return []
    counts = np.bincount(block.codes().ravel(), minlength=1).tolist()
    return [
        (f'{text},validity="{codes.name_of(code)}"', count)
        for code, count in enumerate(counts)
        if count or code == codes.VALID
    ]
