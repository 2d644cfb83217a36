"""Agreement of the step in C with Python: one table, compared at import.

``STEP`` is that of ``filters.worker.step.native``, if it agrees.
"""

from __future__ import annotations

from acquisition import compiled
from acquisition.model import codes
from acquisition.wire import frame, keys, position
from acquisition.wire.records import inputs, planes, recent, smoothed
from filters.kernels.numpy_step import LARGEST
from filters.worker.inputs import bursts, plan, state
from filters.worker.inputs.order import ABSENT
from filters.worker.partitions.batch import Accepted, Batch
from filters.worker.states.sequence import Track
from filters.worker.states.state import State
from filters.worker.step import native

_OF_STATE, _OF_BATCH = ("member", "shape", "stepper", "track"), ("records", "extra")
_OF_TRACK = ("flags", "interval", "epoch", "sequence", "tick", "wall", "applied", "invalid", "frames", "made")


def table() -> dict[str, object]:
    """The definitions by their names in C (filters/worker/step/shared.h and the headers included with it)."""
    section = compiled.offsets(inputs.HEADER_FIELDS)
    return {
        **smoothed.in_c(),
        **_frame_header(),
        **{f"Exception.{name}": field[1] for name, field in (smoothed.EXCEPTION.fields or {}).items()},
        **{f"Track.{name}": getattr(Track, name).offset for name in _OF_TRACK},
        "sizeof Track": position.POSITION.size,
        "VALID": codes.VALID,
        "MISSING": codes.MISSING,
        "FIRST": codes.FIRST,
        "LATE": codes.LATE,
        "RANGE": codes.RANGE,
        "CODE_MASK": codes.CODE_MASK,
        "OUTLIER": codes.OUTLIER_FLAG,
        "MEAN": planes.MEAN.number,
        "VARIANCE": planes.VARIANCE.number,
        "TREND": planes.TREND.number,
        "LARGEST": float(LARGEST),
        "ABSENT": float(ABSENT),
        "BURST_FIGURES_KEPT": inputs.BURST_FIGURES,
        "BURST_SLOTS": inputs.BURST_SLOTS,
        "BURST_LEAST": float(bursts.LEAST),
        "BURST_MOST": float(bursts.MOST),
        "BURST_FALL": float(bursts.FALL),
        "BURST_SLOT_SECONDS": bursts.SLOT_SECONDS,
        "BURST_SLOT_NUMBERS": bursts.SLOT_NUMBERS,
        "BURST_SAME_SHARE": float(bursts.SAME_SHARE),
        "BURST_SAME_SECONDS": float(bursts.SAME_SECONDS),
        "FIGURES_KEPT": inputs.FIGURES,
        "PLANES_OF_DERIVED": inputs.DERIVED_PLANES,
        "COUNTS_KEPT": inputs.COUNTS,
        "SECTION_HEADER": inputs.HEADER.size,
        "STEP_AT": section["step"],
        "FIRST_AT": section["first"],
        "FORMULAS_KNOWN": plan.FORMULAS,
        "MOST_PARTS": plan.MOST_PARTS,
        "NO_PART": plan.NO_PART,
        "sizeof Shape": plan.SHAPE.size,
        "sizeof Derived": plan.FORMULA.size,
        "SHORTEST": state.SHORTEST,
        "LONGEST": state.LONGEST,
        "GAP": state.GAP,
        "PADDING": state.PADDING,
        "ROW_HEADER": recent.ROW_HEADER.size,
        "SEED_HEADER": recent.SEED_HEADER.size,
        "NOT_VALID": recent.QUIET_NAN,
        "NOT_THERE": recent.GONE,
        "SHEDS": position.SHEDS,
        "ENDED": position.ENDED,
        "CONTESTED": position.CONTESTED,
        "ENTRY_FIELD": keys.ENTRY_FIELD,
        "PARTS_ACCEPTED": Accepted._fields,
        "ATTRIBUTES_OF_STATE": tuple(name for name in _OF_STATE if name in State.__slots__),
        "ATTRIBUTES_OF_BATCH": tuple(name for name in _OF_BATCH if name in Batch.__slots__),
    }


def _frame_header() -> dict[str, object]:
    return {
        **{f"FrameHeader.{name}": at for name, at in compiled.offsets(frame.HEADER_FIELDS).items()},
        "sizeof FrameHeader": frame.HEADER_SIZE,
        "FRAME_MAGIC": frame.MAGIC,
        "FRAME_VERSION": frame.VERSION,
        "KIND_SAMPLES": frame.KIND_SAMPLES,
        "FLAG_CODES": frame.FLAG_CODES,
        "HINT_SHEDS": frame.HINT_SHEDS,
        "CRC_FROM": frame.CRC_FROM,
        "MOST_CELLS": frame.MOST_CELLS,
        "MOST_COUNTED": frame.MOST_COUNTED,
    }


if native.MODULE is not None:
    compiled.agree(native.MODULE, table())
STEP = native.STEP
