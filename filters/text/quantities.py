"""Quantities for display: units, ages, text without control characters."""

from __future__ import annotations

import math

from acquisition.terminal import printable

ABSENT = "-"
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T")
#: From the first on, every float32 is a whole number with all digits known; from the second on, integers
#: stored by other programs in a double are inexact, and no counts occur.
WHOLE, COUNTED = 2.0**23, 2.0**53
LEAST = 2.0**-126  #: values closer to 0 are residues of old events in a moving average


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit and about three significant digits: ``1.25 GiB/s``, ``3.7%``, ``12.5k``. Ratios and
    cores are in percent: 100% is one core."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if unit in ("ratio", "cores"):
        percent = round(100 * value, 1) + 0.0  # + 0.0: not -0.0
        if abs(percent) >= 100_000:
            return f"{_scaled(percent, 1000, _DECIMAL, '')}%"
        return f"{percent:.{1 if abs(percent) < 100 else 0}f}%"
    if unit.startswith("bytes"):
        return f"{_scaled(value, 1024, _BINARY, ' ')}{printable(unit[len('bytes') :])}"
    if abs(value) >= 10_000:
        return _scaled(value, 1000, _DECIMAL, "")
    if abs(value) < 0.0005 and value:
        return "0.000"  # residue of an old event in a moving average
    return f"{value:.0f}" if value == int(value) or abs(value) >= 999.5 else f"{value:.3g}"


def exact(value: float | None) -> str:
    """A value for other programs: base unit, digits of a float32."""
    shown = digits(value)
    return ABSENT if shown is None else f"{shown:.0f}" if WHOLE <= abs(shown) < COUNTED else f"{shown:.7g}"


def digits(value: float | None) -> float | None:
    """Value with the digits of a float32: 0.1, not 0.10000000149011612, 4294967296 and not 4294967000; 0 for subnormal
    values (below 1.2e-38); None without a value."""
    if value is None or not math.isfinite(value):
        return None
    size = abs(value)
    if WHOLE <= size < COUNTED:
        return float(round(value))
    return float(f"{value:.7g}") if size >= LEAST else 0.0


def seconds(value: float | None) -> str:
    """An age: ``0.62 s``, ``3 min``; ``-`` if unknown."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if abs(value) < 10:
        return f"{value:.2f} s"
    if abs(value) < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if abs(value) < 7200 else f"{value / 3600:.1f} h"


def counted(number: int, noun: str) -> str:
    """``1 host``, ``2 hosts``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _scaled(value: float, step: int, prefixes: tuple[str, ...], space: str) -> str:
    power = 0
    while abs(value) >= step * 0.9995 and power < len(prefixes) - 1:
        value /= step
        power += 1
    digits = (
        f"{value:.0f}"
        if abs(value) >= 99.95 or power == 0
        else f"{value:.1f}"
        if abs(value) >= 9.995
        else f"{value:.2f}"
    )
    return f"{digits}{space}{prefixes[power]}"
