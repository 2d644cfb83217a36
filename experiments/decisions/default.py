"""What was chosen: the rule and the time constant that ``filters.decisions`` should start with (docs/smoothing.md)."""

from __future__ import annotations

WATCH = "EMA 5 s"
RULE = "threshold"
