"""Log of a running part: lines on stderr with level, category and fields.

    LOG = log.category("probe.sources")
    if LOG.debugs:
        LOG.debug("read", set=name, rows=len(rows))

A trouble that lasts is one line when it begins and one when it is over (``TroubleLog``).

Off costs nothing: a statement of a loop stands behind its category's flag, as here, which is one look at an attribute;
nothing is formatted, called or kept for a reader that may never come (docs/decisions/0139). Categories are named after
the rooms that log. The probe imports this module: it stays lean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from acquisition.errors import ShardError, TemporaryError, UnavailableError
from acquisition.terminal import ERROR, INFO, WARNING, say

NOTICE, DEBUG = 5, 7
#: As of syslog(3). NOTICE is the default: it says what begins, what ends, and what goes wrong.
LEVELS = {"error": ERROR, "warning": WARNING, "notice": NOTICE, "info": INFO, "debug": DEBUG}
#: Category -> what it says at info (one line for each unit of work, and for each change) and at debug.
CATEGORIES = {
    "probe": "each tick: duration, samples, failed checks",
    "probe.sources": "failure and recovery of sources; at debug each reading",
    "probe.checks": "at debug each sample that failed a check, with value and reason",
    "probe.outbox": "shards found and lost, frames resent; at debug frames sent and applied",
    "filter": "start and stop",
    "filter.worker": "each turn: frames, their age, rejections; at debug each partition's read and commit",
    "filter.leases": "partitions acquired and released",
    "serve": "start and stop",
    "serve.reading": "each snapshot: hosts, hosts not current, duration",
    "serve.decisions": "hosts that become hot or cool, moves; at debug each verdict with its reason",
    "serve.http": "each request: status, bytes, duration; never headers",
    "archive": "start and stop",
    "archive.follower": "each batch: rows, duration; at debug each round",
    "archive.upkeep": "rows removed and compacted",
    "watcher": "each snapshot; at debug each answer",
}

SHARDS = "shards"  #: the trouble that the shards, or some of them, do not answer as they should
_EVERY = 10.0  #: seconds between two lines of a kind
_PATIENCE = 1.0  #: what is over sooner is not reported, as that a partition has moved


class Category:
    """Lines of one category. ``informs`` and ``debugs`` say whether anybody wants those of the level.

    A category that is called says a notice: it is then a function that takes one line for the operator.
    """

    __slots__ = ("_level", "debugs", "informs", "name")

    def __init__(self, name: str, level: int = NOTICE) -> None:
        self.name = name
        self.limit(level)

    def limit(self, level: int) -> None:
        """From now on say lines of this level and graver ones."""
        self._level = level
        self.informs, self.debugs = level >= INFO, level >= DEBUG

    def __call__(self, text: str, /, **fields: object) -> None:
        """Say what is normal and worth knowing."""
        self._say(NOTICE, text, fields)

    def error(self, text: str, /, **fields: object) -> None:
        """Say what ends the part, or a piece of its work."""
        self._say(ERROR, text, fields)

    def warn(self, text: str, /, **fields: object) -> None:
        """Say that something is wrong."""
        self._say(WARNING, text, fields)

    def info(self, text: str, /, **fields: object) -> None:
        """Say what was done: a unit of work, a change."""
        self._say(INFO, text, fields)

    def debug(self, text: str, /, **fields: object) -> None:
        """Say what a unit of work consists of."""
        self._say(DEBUG, text, fields)

    def _say(self, level: int, text: str, fields: Mapping[str, object]) -> None:
        if level <= self._level:
            said = "".join([f" {name}={_value(value)}" for name, value in fields.items()])
            _OUTPUT.write(level, f"shardpulse {self.name}: {text}{said}")


class _Output:
    """Where lines go. They carry a time, which journald adds by itself, once any category says more than notices: what
    is normally said is read by people at a terminal and by programs."""

    def __init__(self) -> None:
        self.write: Callable[[int, str], None] = self._to_stderr
        self.timed = False

    def _to_stderr(self, level: int, line: str) -> None:
        say(line, level, _stamp(level) if self.timed else "")


_OUTPUT = _Output()
_CATEGORIES = {name: Category(name) for name in CATEGORIES}


def category(name: str) -> Category:
    """The category of this name, one of CATEGORIES."""
    return _CATEGORIES[name]


def send_to(write: Callable[[int, str], None]) -> None:
    """Have lines written by ``write(level, line)`` instead: in a process that is not ours (OpenStack Watcher)."""
    _OUTPUT.write = write


def levels(*texts: str) -> dict[str, int]:
    """The level of each category as these texts say (``info``, ``probe.sources=debug,filter=info``), a later text over
    an earlier one and the longer name over the shorter. Raises ValueError for an unknown category or level."""
    chosen = dict.fromkeys(CATEGORIES, NOTICE)
    for text in texts:
        for name, level in sorted(_parsed(text)):
            chosen |= {each: level for each in CATEGORIES if not name or f"{each}.".startswith(f"{name}.")}
    return chosen


def apply(chosen: Mapping[str, int]) -> None:
    """Say from now on what ``levels`` has chosen."""
    for name, level in chosen.items():
        _CATEGORIES[name].limit(level)
    _OUTPUT.timed = any(each.informs for each in _CATEGORIES.values())


def _parsed(text: str) -> Iterator[tuple[str, int]]:
    for word in filter(None, map(str.strip, text.split(","))):
        name, _, level = map(str.strip, word.rpartition("="))
        if name and name not in CATEGORIES:
            raise ValueError(f"unknown category {name!r}{_suggestion(name, CATEGORIES)}")
        if level not in LEVELS:
            raise ValueError(f"unknown level {level!r}{_suggestion(level, LEVELS)}")
        yield name, LEVELS[level]


def _suggestion(word: str, known: Mapping[str, object]) -> str:
    from difflib import get_close_matches  # only for what is wrong: it would cost every probe 0.3 MB

    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(known)}"


def _stamp(level: int) -> str:
    """Time (UTC) and level, in front of a line."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    name = next(name for name, number in LEVELS.items() if number == level)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03}Z {name} "


def _value(value: object) -> str:
    """A field's value as one word: quoted where it would not be one."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    if text and text.isprintable() and not any(sign in text for sign in ' "=\\'):
        return text
    import json

    return json.dumps(text, ensure_ascii=False)


class _Trouble:
    """One that lasts. ``kinds`` of it were reported already; ``newest`` is when it was last seen, with ``text``."""

    __slots__ = ("began", "kinds", "newest", "text")

    def __init__(self, now: float) -> None:
        self.began = self.newest = now
        self.text = ""
        self.kinds: set[str] = set()


class TroubleLog:
    """``report`` gets lines of text; ``count`` is how many messages there were, reported or not."""

    def __init__(self, report: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.report = report
        self._warn: Callable[[str], None] = report.warn if isinstance(report, Category) else report
        self.count = 0
        self._clock = clock
        self._reported: dict[str, float] = {}
        self._troubles: dict[str, _Trouble] = {}

    def tell(self, text: str, kind: str = "") -> None:
        """Report an event, ``text``, which has no end; one of its ``kind`` (by default the text) in ten seconds."""
        self.count += 1
        self._tell(text, kind or text)

    def lasts(self, trouble: str, text: str, kind: str = "", patience: float = _PATIENCE) -> None:
        """Call it again and again while a trouble lasts. ``text`` is reported once for each ``kind`` of it, when it has
        lasted for ``patience`` seconds; and not too soon after the line that such a trouble was over."""
        self.count += 1
        now = self._clock()
        found = self._troubles.get(trouble)
        if found is None:
            found = self._troubles[trouble] = _Trouble(now)
        found.newest, found.text = now, text
        if kind not in found.kinds and now - found.began >= patience and self._tell(text, f"{trouble} {kind}"):
            found.kinds.add(kind)

    def fails(self, trouble: str, error: Exception, patience: float = _PATIENCE) -> None:
        """``lasts`` for an error: all that pass when shards are there again are of one kind."""
        passing = isinstance(error, ShardError | TemporaryError) or type(error) is UnavailableError
        self.lasts(trouble, str(error), "" if passing else type(error).__name__, patience)

    def over(self, trouble: str, text: str = "") -> None:
        """The trouble is over, if there was any; ``text``, unless it is empty, is reported if its beginning was."""
        found = self._troubles.pop(trouble, None)
        if found is not None and found.kinds:
            if text:
                self.report(text)
            for kind in found.kinds:
                self._reported[f"{trouble} {kind}"] = self._clock()

    def calm(self, trouble: str, seconds: float) -> bool:
        """Whether there was such a trouble, and has been nothing of it for so long."""
        found = self._troubles.get(trouble)
        return found is not None and self._clock() - found.newest >= seconds

    @property
    def trouble(self) -> str:
        """Troubles that last now, reported or not; "" when there are none."""
        return "; ".join([found.text for found in self._troubles.values()])

    def _tell(self, text: str, kind: str) -> bool:
        now = self._clock()
        if now - self._reported.get(kind, float("-inf")) <= _EVERY:
            return False
        self._reported[kind] = now
        self._warn(text)
        return True
