"""Figures of samples: planes of a block as nested lists, rounded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Meta, Struct, UnsetType

from acquisition.model import codes
from acquisition.model.inputs import DecisionInputs
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.inputs import InputsTable
from acquisition.wire.records import planes
from filters.text.quantities import COUNTED, LEAST, WHOLE, digits

#: The figures of further kernels (acquisition.wire.records.planes), by name.
EXTRA = {plane.figure: plane for plane in planes.extra()}
_OWN = {plane.figure: plane for plane in planes.OWN}
#: Figures that can be requested of every sample, in the order of the documents.
FIGURES = (*_OWN, *EXTRA, "validity", "stale_seconds")
NUMBERS = frozenset((*_OWN, "stale_seconds"))  #: the numeric ones, without further kernels
SMOOTHED = frozenset(plane.figure for plane in planes.OWN if not plane.raw)
UNIT = "unit"
INPUTS = "inputs"
#: Figures that can be requested of a reading.
READING = (*FIGURES, UNIT, INPUTS)
_DIGITS = 7  #: precision of a float32: 0.1, not 0.10000000149011612
_SMOOTH = frozenset(("threshold", "time_above_seconds", "cusum", "median", "mad", "q1", "q3", "lowest", "highest"))
#: Figures that continue from tick to tick; without a valid sample in the window they are meaningless.
RUNNING = ("time_above_seconds", "cusum")
_VALIDITY = np.array([codes.name_of(code) for code in range(256)], object)

Number = float | UnsetType | None
Lists = list[list[Any]]
#: Description of the object with the figures of further kernels.
DESCRIBED = Meta(
    description="; ".join(
        ["the figures of further kernels by name", *(f"{p.figure}: {p.help}" for p in EXTRA.values())]
    )
)


class BurstsDocument(Struct, frozen=True):
    """Learned bursts of a host's CPU (``acquisition.model.inputs.Bursts``)."""

    open_seconds: float
    held_seconds: float
    total: int
    longest_seconds: float
    height: float
    period_seconds: float
    regular: int
    since_seconds: float
    last_seconds: float


class InputsDocument(Struct, frozen=True):
    """Figures that rules read beside the moving average; the meaning of each is that of
    ``acquisition.model.inputs.DecisionInputs``. ``warming``: the window is not full yet, rules abstain. Figures of the
    window are null where it has no valid sample."""

    window: int
    valid: int
    above: int
    threshold: float
    time_above_seconds: float | None
    cusum: float | None
    median: float | None
    mad: float | None
    q1: float | None
    q3: float | None
    since: float
    warming: bool
    counted: int
    counted_valid: int
    plateau: int
    lowest: float | None
    highest: float | None
    ordered: bool
    window_seconds: float
    counted_seconds: float
    plateau_seconds: float
    bursts: BurstsDocument | None


class ReadingDocument(Struct, frozen=True):
    """One metric of one entity. ``validity`` is the code of ``last``; ``stale_seconds`` runs from the last
    valid value to this tick, null when there never was one. What was not asked for is left out."""

    mean: Number = UNSET
    deviation: Number = UNSET
    trend: Number = UNSET
    last: Number = UNSET
    validity: str | UnsetType = UNSET
    stale_seconds: Number = UNSET
    unit: str | UnsetType = UNSET
    inputs: InputsDocument | UnsetType | None = UNSET
    extra: Annotated[dict[str, float | None], DESCRIBED] | UnsetType = UNSET


def planes_of(block: Block, rows: Sequence[int], columns: Sequence[int], figures: Collection[str]) -> dict[str, Lists]:
    """Figure -> list of rows of values; absent numbers are None."""
    index = np.ix_(np.asarray(rows, np.intp), np.asarray(columns, np.intp))
    return {name: _plane(block, name, index) for name in FIGURES if name in figures}


def gathered(values: dict[str, Any]) -> dict[str, Any]:
    """Figures of a document by name; those of further kernels are combined in ``extra``."""
    extra = {name: values.pop(name) for name in EXTRA if name in values}
    return values | {"extra": extra} if extra else values


def readings_of(
    block: Block, rows: Sequence[int], columns: Sequence[int], figures: Collection[str], table: InputsTable | None
) -> list[dict[str, ReadingDocument]]:
    """Readings by metric name for each of ``rows``; ``table`` has the decision inputs of the block."""
    planes = planes_of(block, rows, columns, figures)
    metrics = [block.metrics[column] for column in columns]
    found: list[dict[str, ReadingDocument]] = []
    for i, row in enumerate(rows):
        by_metric = {}
        for j, metric in enumerate(metrics):
            values = {name: plane[i][j] for name, plane in planes.items()}
            if UNIT in figures:
                values[UNIT] = metric.unit
            if INPUTS in figures:
                values[INPUTS] = inputs_document(table.inputs(row, metric.name) if table is not None else None)
            by_metric[metric.name] = ReadingDocument(**gathered(values))
        found.append(by_metric)
    return found


def _plane(block: Block, name: str, index: tuple[npt.NDArray[np.intp], ...]) -> Lists:
    if name == "validity":
        names: Lists = _VALIDITY[block.codes()[index]].tolist()
        return names
    if name == "stale_seconds":
        return rounded(block.stale_seconds()[index])
    plane = _OWN.get(name) or EXTRA[name]
    return rounded(plane.figures(block.shown(plane)[index]))


def rounded(values: npt.NDArray[Any]) -> Lists:
    """Nested lists of floats with the digits of ``quantities.digits``, None for non-finite values."""
    exact = values.astype(np.float64)
    size, good = np.abs(exact), np.isfinite(exact)
    exact[size < LEAST] = 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exponent = np.where(good & (exact != 0), np.floor(np.log10(size)), 0.0)
        decimals = _DIGITS - 1 - exponent
        up, down = 10.0 ** np.clip(decimals, 0, 300), 10.0 ** np.clip(-decimals, 0, 300)
        wide = np.round(exact * up / down) / up * down
    whole = (size >= WHOLE) & (size < COUNTED)
    if whole.any():
        wide[whole] = np.rint(exact[whole])
    shown = wide
    if not good.all():
        shown = wide.astype(object)
        shown[~good] = None
    lists: Lists = shown.tolist()
    return lists


def inputs_document(found: DecisionInputs | None) -> InputsDocument | None:
    """Document of decision inputs; None if the filter computes none."""
    if found is None:
        return None
    values: dict[str, Any] = {
        name: digits(value) if name in _SMOOTH else value for name, value in found._asdict().items()
    }
    if found.bursts is not None:
        values["bursts"] = BurstsDocument(*found.bursts._replace(height=digits(found.bursts.height) or 0.0))
    return InputsDocument(**values if found.valid else values | dict.fromkeys(RUNNING))


def shortened(value: float | None, digits: int = 6) -> float | None:
    """A single number of seconds, rounded to ``digits`` decimals; None for anything else."""
    return None if value is None or not np.isfinite(value) else round(value, digits)
