"""Accounts made by hand: sent by a probe, applied by a filter, balanced."""

from __future__ import annotations

from acquisition.snapshot.reconcile.balance import ABSENT, REPORTED, Account, Source, balance
from acquisition.wire.position import Position
from acquisition.wire.status import SetStatus

EPOCH = 9


def sent(
    made: int = 100, sent_samples: int = 80, sent_id: str = "8-0", epoch: int = EPOCH, floor: int = 1, dropped: int = 0
) -> SetStatus:
    """Frames of one sample each: 100 made, 80 acknowledged, all from ``floor`` on in the ring."""
    return SetStatus(
        epoch, made, made, floor, sent_samples, sent_id, sent_samples, 0, 3, dropped, dropped, 0, floor - 1
    )


def done(applied: int, lost: int = 0, before: int = 0, epoch: int = EPOCH, flags: int = 0) -> Position:
    sequence = before + applied + lost
    return Position(
        epoch, sequence, 0, 0.0, 1.0, flags, before, applied, 0, lost, applied, lost, made=before + applied + lost
    )


def account(
    status: SetStatus | None, known: Position | None, cursor: bytes = b"9-0", report: str | None = None
) -> Account:
    report = report or (ABSENT if status is None else REPORTED)
    return balance(Source(1, "alpha", 2, report, 0.0), status, known, cursor)
