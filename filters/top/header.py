"""The lines above a table: where one is, how all hosts are, whether the picture stands still, what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.text import Text

from acquisition.shards.status import REPLICA, ShardStatus
from acquisition.snapshot.states import STATES
from filters.text.quantities import printable, quantity, seconds
from filters.text.states import state_style
from filters.top.contents import Contents, Opened, place_of
from filters.top.history import empty
from filters.top.listing import HOSTS, STATE_CURRENT, Listing
from filters.top.view import HELP, SHARDS, View

_TITLES = {HELP: "help", SHARDS: "shards and books"}
_FULL = 0.9


def of_level(contents: Contents, view: View, clock: str, still: float | None) -> list[Text]:
    """Two or three lines; ``still`` is for how many seconds the picture has not changed, None while it does."""
    level = view.level
    first = Text.assemble(("shardpulse top", "bold cyan"), f" {clock}  ")
    if level.kind == HOSTS:
        lines = [first.append_text(_counts(contents.hosts)), _load(contents)]
    elif level.kind in _TITLES:
        lines = [first.append(_TITLES[level.kind], "bold")]
    else:
        opened = contents.below.get(place_of(level), Opened(None, empty(), ""))
        lines = [first.append_text(_place(opened)), _common(contents, opened.listing, level.host)]
    notes = _notes(contents, view, still)
    return [*lines, notes] if notes.plain else lines


def _counts(hosts: Listing) -> Text:
    text = Text(f"{hosts.rows:,} host{'s' * (hosts.rows != 1)}: ")
    for number, state in enumerate(STATES):
        count = int((hosts.state == number).sum())
        if count or number == STATE_CURRENT:
            text.append(", " if number else "")
            text.append(f"{count:,} {state}", state_style(state) if count else "")
    current = hosts.tick[hosts.state == STATE_CURRENT]
    return text.append(f"  tick {int(current.max())}" if len(current) else "")


def _load(contents: Contents) -> Text:
    known = contents.hosts.mean[np.isfinite(contents.hosts.mean)]
    figures = f"cpu median {np.median(known):.3f}, highest {known.max():.3f}" if len(known) else "cpu missing"
    text = Text(f"{figures}  ")
    text.append(f"samples lost {contents.lost:,}", "bold red" if contents.lost else "")
    return text.append("  ").append_text(_shards(contents.observation.shards))


def _shards(shards: Sequence[ShardStatus]) -> Text:
    masters = [shard for shard in shards if shard.role != REPLICA]
    if not masters:
        return Text("shards …", "dim")
    answering = sum(shard.answering for shard in masters)
    text = Text(f"shards {answering} of {len(masters)}", "bold red" if answering < len(masters) else "")
    fullest = max((s.memory_bytes / s.memory_limit_bytes for s in masters if s.memory_limit_bytes), default=None)
    if fullest is not None:
        text.append(f", fullest {fullest:.0%}", "bold red" if fullest > _FULL else "")
    return text


def _place(opened: Opened) -> Text:
    text = Text(opened.title, "bold")
    rows = opened.listing.rows if opened.listing is not None else 0
    return text.append(f"  {rows} rows" if rows else "")


def _common(contents: Contents, listing: Listing | None, host: int) -> Text:
    """What the rows share, and the host's own CPU."""
    text = Text()
    if listing is not None and listing.heading:
        state, *rest = listing.heading
        text.append(state, state_style(state))
        text.append("".join(f" · {part}" for part in rest))
    at = np.flatnonzero(contents.hosts.ids == host)
    if len(at) and contents.hosts.state[at[0]] == STATE_CURRENT:
        i = int(at[0])
        mean = quantity(float(contents.hosts.mean[i]), "ratio")
        memory = quantity(float(contents.hosts.memory[i]), "ratio")
        text.append(f"  host cpu {_or_missing(mean)}, memory {_or_missing(memory)}")
    return text


def _or_missing(figure: str) -> str:
    return "missing" if figure == "-" else figure


def _notes(contents: Contents, view: View, still: float | None) -> Text:
    """What must not be overlooked, the worst first: it cannot be read, it is paused, it is not all."""
    observation, parts = contents.observation, Text()
    if observation.error:
        parts.append(f"CANNOT BE READ for {seconds(still or 0.0)}: {printable(observation.error)}  ", "bold red")
    if view.paused:
        parts.append(f"PAUSED, {seconds(still or 0.0)} old  ", "bold yellow")
    if view.level.pattern and view.typing is None:
        parts.append(f"filter: {view.level.pattern}  ", "bold")
    if not observation.snapshot.blocks and not observation.snapshot.unread and not observation.error:
        parts.append("no samples yet: are `shardpulse probe` and `shardpulse filter` running?", "yellow")
    for error in observation.snapshot.errors:
        parts.append(f"{printable(error)}  ", "red")
    if observation.snapshot.damaged:
        parts.append(f"{observation.snapshot.damaged} damaged records", "red")
    return parts
