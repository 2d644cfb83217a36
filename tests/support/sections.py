"""Sections of decision inputs and rings of recent values, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from acquisition.wire.records import inputs, recent, smoothed
from acquisition.wire.records.inputs import Section


def section(
    names: Sequence[str] = ("metric_0", "metric_1"),
    entities: int = 3,
    derived: int = 1,
    *,
    plateau: int = 4,
    ordered: bool = True,
    step: int = 16,
    bursts: int = 0,
    code: int = validity.FIRST,
    values: Mapping[str, float] | None = None,
) -> Section:
    """A section whose figures count up, plane by plane, unless ``values`` say one number for all of a figure or count;
    windows are of 30 ticks of one second, of which 8 are seen."""
    bits = (inputs.ORDER_STATISTICS if ordered else 0) | (inputs.PLATEAU if plateau else 0)
    known, c, d, e = inputs.figure_names(bits), len(names), derived, entities
    head = inputs.Head(
        c, d, bits, bursts, 30, 5, plateau, 120, len(inputs.pack_names(names)), 10, step, 3, 30.0, 5.0, float(plateau)
    )
    found = Section(
        head,
        np.full(e, 1e9),
        np.arange(len(known) * c * e, dtype="<f4").reshape(len(known), c, e),
        np.full((len(inputs.DERIVED_PLANES), d, e), 0.125, "<f4"),
        np.arange(head.bursts * e, dtype="<f4").reshape(head.bursts, e),
        np.full(c, 0.5, "<f4"),
        np.full(c, 0.25, "<f4"),
        np.arange(c - d, dtype="<u2"),
        np.full(e, 8, "u1"),
        (np.arange(len(inputs.COUNTS) * c * e) % 8).astype("u1").reshape(len(inputs.COUNTS), c, e),
        np.full((d, e), code, "u1"),
        tuple(names),
    )
    for name, value in (values or {}).items():
        plane = found.figure(name) if name in known else found.tally(name)
        plane[...] = value
    return found


def with_section(record: bytes, section: Section) -> bytes:
    """A smoothed record with these decision inputs instead of its own."""
    head, data = smoothed.unpack_head(record), inputs.encode(section)
    return smoothed.HEADER.pack(*head._replace(inputs_size=len(data))) + data + record[head.ids_at :]


Samples = Sequence[tuple[int, npt.ArrayLike, npt.ArrayLike]]


def ring(
    names: tuple[str, ...],
    slots: Sequence[tuple[int, int]],
    samples: Samples,
    *,
    seeds: Mapping[int, npt.ArrayLike] | None = None,
    tau: float = 5.0,
    life: int = 5,
    derived: int = 0,
    depth: int = 120,
    host: int = 7,
    resource_set: int = 9,
    interval: float = 1.0,
    wall: float = 1_000_000.0,
) -> bytes:
    """A ring of ``slots`` (id, first), with rows of ``samples`` (step, raw (C, capacity), codes (C, capacity)), one
    interval from step to step, and ``seeds`` (step -> means (C, capacity))."""
    c, n = len(names), len(slots)
    head = recent.make_head(host, resource_set, interval, names, derived, n, depth)
    data = bytearray(head.places.size)

    def put(at: int, piece: bytes) -> None:
        data[at : at + len(piece)] = piece

    put(0, recent.encode_front(head, np.full(c, tau), names))
    for number, slot in enumerate(slots):
        put(head.slot_at(number), recent.SLOT.pack(*slot))
    for step, means in (seeds or {}).items():
        put(head.seed_at(step), recent.encode_seed(step, np.asarray(means, "<f4").reshape(c, n)))
    for step, raw, codes in samples:
        values = np.broadcast_to(np.asarray(raw, "<f4"), (c, n))
        marks = np.broadcast_to(np.asarray(codes, "u1"), (c, n))
        seconds = interval * step
        put(head.row_at(step), recent.encode_row(step, life, wall + seconds + 0.5, seconds, values, marks))
    return bytes(data)
