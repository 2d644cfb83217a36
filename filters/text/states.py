"""States and validity for display: colours, and duration without a value."""

from __future__ import annotations

from rich.text import Text

from acquisition.snapshot.values.rows import Row
from acquisition.snapshot.values.states import CURRENT, DOWN
from filters.text.quantities import seconds

_STYLES = {CURRENT: "green", DOWN: "bold red"}


def state_style(state: str) -> str:
    """The style of a state (acquisition.snapshot.values.states)."""
    return _STYLES.get(state, "yellow")


def validity(row: Row) -> Text:
    """The code, and the time without a valid value."""
    if row.state != CURRENT and row.last is None and row.stale_seconds is None:
        return Text(f"{row.validity}", "dim")
    if not row.stale_seconds:
        return Text(row.validity, "green" if row.validity == "VALID" else "yellow")
    return Text(f"{row.validity} {seconds(row.stale_seconds)}", "yellow")
