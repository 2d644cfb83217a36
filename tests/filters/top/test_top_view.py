"""``shardpulse top`` without a terminal: keys, order, history and what is rendered, as pure functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from acquisition.model import codes
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import STATES
from filters.text.sparkline import bars
from filters.top import columns
from filters.top.contents import Contents, Observation, Opened
from filters.top.key_actions import KEYS, apply_key, decode
from filters.top.listings import history
from filters.top.listings.listing import ENTITIES, HOSTS, METRICS, Listing
from filters.top.look import Look, speaks_utf8
from filters.top.screen import Frame, Screen, render
from filters.top.view import Level, Page, View, visible_rows

NOW = 1_000_000.0
CURRENT, LATE, UNKNOWN, DOWN = range(4)
KEY_NAMES = (
    "up", "down", "page-up", "page-down", "home", "end", "enter", "right", "left", "escape", "backspace", "tab",
    "space", "interrupt", "redraw", "erase", "ctrl-b", "ctrl-f",
    *"jklhgGsSrcmiant/p12?qxX=*ü世",
)  # fmt: skip


def listing(kind: str, names: list[str], mean: list[float], tick: int = 100, **columns: Any) -> Listing:
    n = len(names)
    nan = float("nan")
    values = np.array(mean, float)
    made = Listing(
        kind, names, [str(1000 + i) if kind == ENTITIES else "" for i in range(n)],
        np.arange(1, n + 1, dtype=np.uint64), ["ratio" if kind == HOSTS else "cores"] * n,
        mean=values, deviation=np.full(n, 0.05), trend=np.zeros(n), last=values + 0.01,
        codes=np.where(np.isnan(values), codes.MISSING, codes.VALID).astype(np.uint8),
        memory=np.full(n, 0.5 if kind == HOSTS else nan), invalid=np.zeros(n, np.int64),
        missing=np.isnan(values).astype(np.int64), age=np.full(n, 1.2), state=np.zeros(n, np.uint8),
        tick=np.full(n, tick, np.int64), interval=np.ones(n), now=NOW, reasons=[""] * n,
    )  # fmt: skip
    return made._replace(**columns)


def picture(hosts: Listing, below: Listing | None = None, **observation: Any) -> Contents:
    snapshot = Snapshot("coherent", NOW, [Block(1, 1, None)], [])
    past = history.advance(history.empty(), hosts)
    opened = {}
    if below is not None:
        for identity in hosts.ids.tolist():
            for resource_set in ("", "vms", "host"):
                for entity in (None, *below.ids.tolist()):
                    shown = below._replace(kind=METRICS) if entity or resource_set == "host" else below
                    opened[identity, resource_set, entity] = Opened(
                        shown, history.advance(history.empty(), shown), "a host"
                    )
    found = Observation(snapshot, (), None)._replace(**observation)
    return Contents(found, hosts, past, opened, ("vms", "host"))


def text(screen: Screen) -> str:
    return "\n".join(line.plain for line in screen.lines)


def hosts_screen(hosts: Listing, view: View | None = None, width: int = 80, height: int = 24, utf8: bool = True) -> str:
    return text(render(picture(hosts), view or View(), Frame(width, height, Look(utf8), "12:00:00")))


FOUR = listing(
    HOSTS, ["db", "gone", "web1", "web2"], [float("nan"), float("nan"), 0.5, 0.91],
    state=np.array([CURRENT, DOWN, CURRENT, CURRENT], np.uint8), reasons=["", "33 behind tick 100", "", ""],
)  # fmt: skip


def test_hottest_come_first_and_missing_values_are_not_idle() -> None:
    lines = hosts_screen(FOUR).splitlines()
    assert len(lines) == 24
    assert [line[1:].split()[0] for line in lines[3:7]] == ["web2", "web1", "db", "gone"]
    assert "missing" in lines[5]
    assert " 0.0%" not in lines[5]
    assert lines[6][1:].split()[:2] == ["gone", "down,"]
    assert "seen 1.20 s ago: 33 behind tick 100" in lines[6]
    assert not any(figure in lines[6] for figure in ("0.0", "0.5", "█"))
    assert "4 hosts: 3 current, 1 down" in lines[0]


def test_the_selection_follows_its_host_when_the_order_changes() -> None:
    first = render(picture(FOUR), View(), Frame(80, 24, Look()))
    view = apply_key(first.view, "down", first.page)
    assert "▸web1" in hosts_screen(FOUR, view)
    swapped = FOUR._replace(mean=FOUR.mean[[0, 1, 3, 2]])
    assert "▸web1" in hosts_screen(swapped, view)
    assert hosts_screen(swapped, view).splitlines()[3].startswith("▸web1")


def test_a_filter_is_typed_kept_and_taken_away() -> None:
    view, page = View(), Page((1, 2, 3, 4), 20)
    for key in ("/", "w", "e", "b", "backspace"):
        view = apply_key(view, key, page)
    assert view.typing == view.level.pattern == "we"
    shown = hosts_screen(FOUR, view)
    assert "/we_" in shown
    assert "gone" not in shown
    view = apply_key(view, "enter", page)
    assert (view.typing, view.level.pattern) == (None, "we")
    assert "filter: we" in hosts_screen(FOUR, view)
    assert apply_key(view, "escape", page).level.pattern == ""


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("web", ["web2", "web1"]), ("WEB1", ["web1"]), ("w*2", ["web2"]), ("=down", ["gone"]),
        ("=cur web", ["web2", "web1"]), ("nobody", []), ("[", []),
    ],
)  # fmt: skip
def test_filters(pattern: str, names: list[str]) -> None:
    rows = visible_rows(FOUR, columns.CPU, False, pattern)
    assert [FOUR.names[i] for i in rows] == names


def test_order_backwards_keeps_what_is_missing_last() -> None:
    rows = visible_rows(FOUR, columns.CPU, True, "")
    assert [FOUR.names[i] for i in rows] == ["web1", "web2", "db", "gone"]
    rows = visible_rows(FOUR, columns.NAME, False, "")
    assert [FOUR.names[i] for i in rows] == ["db", "gone", "web1", "web2"]


def test_a_vm_that_migrates_is_marked() -> None:
    vms = listing(ENTITIES, ["stays", "comes"], [0.5, float("nan")])._replace(
        notes=["→web9", ""], reasons=["", "migrating, its place is web9"]
    )
    view = View((Level(), Level(ENTITIES, 1, "vms")))
    lines = text(render(picture(FOUR, vms), view, Frame(80, 24, Look()))).splitlines()
    assert lines[3].startswith("▸stays →web9")
    assert "current, seen 1.20 s ago: migrating, its place is web9" in lines[4]


def test_late_ticks_are_gaps_and_unseen_ticks_are_none() -> None:
    def look(past: history.History, ticks: tuple[int, int], states: tuple[int, int] = (0, 0)) -> history.History:
        rows = listing(HOSTS, ["a", "b"], [0.5, 0.5])
        gone = np.array(states) != CURRENT
        return history.advance(
            past,
            rows._replace(
                tick=np.array(ticks), state=np.array(states, np.uint8), mean=np.where(gone, np.nan, 0.5),
                last=np.where(gone, np.nan, 0.5),
            ),
        )  # fmt: skip

    past = look(history.empty(), (10, 10))
    past = look(past, (11, 10), (0, LATE))
    past = look(past, (12, 10), (0, LATE))
    past = look(past, (13, 13))
    assert past.filled.tolist() == [4, 4]
    assert bars(past.mean[1, -4:].tolist(), 1.0) == "▅??▅"
    past = look(past, (20, 20))
    assert past.filled.tolist() == [5, 5], "nobody looked at 14 to 19: no gap"
    past = look(past, (20, 20))
    assert past.filled.tolist() == [5, 5], "one tick is taken once"
    past = look(past, (3, 21))
    assert past.filled.tolist() == [6, 6], "a host that began anew"


def test_history_follows_ids() -> None:
    past = history.advance(history.empty(), listing(HOSTS, ["a", "b"], [0.25, 0.75]))
    turned = listing(HOSTS, ["b", "c", "a"], [0.7, 0.1, 0.2], tick=101)._replace(ids=np.array([2, 9, 1], np.uint64))
    past = history.advance(past, turned)
    assert past.filled.tolist() == [2, 1, 2]
    assert past.mean[2, -2:].tolist() == pytest.approx([0.25, 0.2])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    keys=st.lists(st.sampled_from(KEY_NAMES), max_size=40),
    sizes=st.lists(st.tuples(st.integers(1, 200), st.integers(1, 60)), min_size=1, max_size=4),
    names=st.lists(st.text(max_size=30), max_size=60),
    utf8=st.booleans(),
    data=st.data(),
)
def test_any_keys_on_any_size_draw_a_screen_that_fits(
    keys: list[str], sizes: list[tuple[int, int]], names: list[str], utf8: bool, data: st.DataObject
) -> None:
    floats = st.one_of(st.floats(-10, 1e12), st.just(float("nan")))
    mean = data.draw(st.lists(floats, min_size=len(names), max_size=len(names)))
    states = data.draw(st.lists(st.integers(0, 2), min_size=len(names), max_size=len(names)))
    hosts = listing(HOSTS, names, mean)._replace(
        state=np.array(states, np.uint8), reasons=["" if state == 0 else f"{STATES[state]} 世界" for state in states]
    )
    seen = picture(hosts, listing(ENTITIES, names[:5], mean[:5]))
    view = View()
    for i, key in enumerate([*keys, ""]):
        width, height = sizes[i % len(sizes)]
        screen = render(seen, view, Frame(width, height, Look(utf8), "12:00:00", 3.0 if view.paused else None))
        assert len(screen.lines) == height
        assert all(cell_len(line.plain) <= width for line in screen.lines), (width, height)
        assert utf8 or all(line.plain.isascii() for line in screen.lines)
        assert all(character.isprintable() for line in screen.lines for character in line.plain)
        view = apply_key(screen.view, key, screen.page)
        assert view.path
        assert view.path[0].kind == HOSTS


@given(st.binary(max_size=60), st.integers(1, 10))
def test_keys_come_whole_however_the_bytes_are_cut(sent: bytes, step: int) -> None:
    keys, rest = [], b""
    for start in range(0, len(sent), step):
        found, rest = decode(rest + sent[start : start + step])
        keys += found
    last, rest = decode(rest, final=True)
    whole, tail = decode(sent)
    assert rest == b""
    assert keys + last == whole + decode(tail, final=True)[0]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"\x1b[A\x1bOB\x1b[1;5C", ["up", "down", "right"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1bOF", ["page-up", "page-down", "home", "end", "end"]),
        (b"\x1b", ["escape"]), (b"\x1b\x1b[A", ["escape", "up"]), ("ü世".encode(), ["ü", "世"]), (b"\xff\xc3a", ["a"]),
        (b"q\r\t \x7f", ["q", "enter", "tab", "space", "backspace"]), (b"\x1b[200~x", ["x"]), (b"\x1b[<0;1;1Mj", ["j"]),
    ],
)  # fmt: skip
def test_named_keys(sent: bytes, keys: list[str]) -> None:
    assert decode(sent, final=True)[0] == keys


def test_help_names_every_key_that_does_something() -> None:
    named = " ".join(keys for keys, _ in KEYS).split()
    for key in ("j", "k", "l", "h", "/", "s", "S", "c", "m", "i", "a", "n", "t", "r", "p", "1", "2", "?", "q", "Tab"):
        assert key in named


def test_the_locale_decides_whether_utf8_is_sent() -> None:
    assert speaks_utf8("utf-8", {"LANG": "de_DE.UTF-8"})
    assert speaks_utf8("UTF-8", {"LC_ALL": "C.utf8", "LANG": "C"})
    assert not speaks_utf8("utf-8", {"LC_ALL": "C", "LANG": "de_DE.UTF-8"})
    assert not speaks_utf8("utf-8", {})
    assert not speaks_utf8("iso-8859-1", {"LANG": "de_DE.UTF-8"})


def test_ten_thousand_hosts_render_only_what_is_visible() -> None:
    names = [f"host-{i:05d}" for i in range(10_000)]
    seen = picture(listing(HOSTS, names, [i / 10_000 for i in range(10_000)]))
    view, frame = View(), Frame(80, 24, Look())
    screen = render(seen, view, frame)
    assert "host-09999" in text(screen)
    last = render(seen, apply_key(screen.view, "end", screen.page), frame)
    assert "▸host-00000" in text(last)
