"""Log of a running part: lines on stderr with level, category and fields.

    LOG = log.category("probe.sources")
    if LOG.debugs:
        LOG.debug("read", set=name, rows=len(rows))

A lasting problem is logged once when it begins and once when it is over (``TroubleLog``).

A level that is off costs one attribute look-up: statements in loops are guarded by the flag of their category, as here;
nothing is formatted, called or kept without a reader (docs/decisions/0139). Categories are named after
the rooms that log. The probe imports this module: it stays lean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from acquisition.errors import ShardError, TemporaryError, UnavailableError
from acquisition.terminal import ERROR, INFO, WARNING, say

NOTICE, DEBUG = 5, 7
#: As in syslog(3). NOTICE is the default: starts, ends and problems.
LEVELS = {"error": ERROR, "warning": WARNING, "notice": NOTICE, "info": INFO, "debug": DEBUG}
#: Category -> its lines at info (one for each unit of work, and for each change) and at debug.
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

SHARDS = "shards"  #: the problem that the shards, or some of them, do not answer as they should
_EVERY = 10.0  #: seconds between two lines of a kind
_PATIENCE = 1.0  #: shorter problems are not reported, such as a partition that has moved


class Category:
    """Lines of one category. ``informs`` and ``debugs``: whether lines of these levels are wanted.

    Calling a category logs a notice: it then serves as a function that takes one line for the operator.
    """

    __slots__ = ("_level", "debugs", "informs", "name")

    def __init__(self, name: str, level: int = NOTICE) -> None:
        self.name = name
        self.limit(level)

    def limit(self, level: int) -> None:
        """Log lines of this level and more severe ones only, from now on."""
        self._level = level
        self.informs, self.debugs = level >= INFO, level >= DEBUG

    def __call__(self, text: str, /, **fields: object) -> None:
        """Log a normal event worth knowing."""
        self._say(NOTICE, text, fields)

    def error(self, text: str, /, **fields: object) -> None:
        """Log an error that ends the part, or a piece of its work."""
        self._say(ERROR, text, fields)

    def warn(self, text: str, /, **fields: object) -> None:
        """Log that something is wrong."""
        self._say(WARNING, text, fields)

    def info(self, text: str, /, **fields: object) -> None:
        """Log completed work: a unit of work, a change."""
        self._say(INFO, text, fields)

    def debug(self, text: str, /, **fields: object) -> None:
        """Log the details of a unit of work."""
        self._say(DEBUG, text, fields)

    def _say(self, level: int, text: str, fields: Mapping[str, object]) -> None:
        if level <= self._level:
            said = "".join([f" {name}={_value(value)}" for name, value in fields.items()])
            _OUTPUT.write(level, f"shardpulse {self.name}: {text}{said}")


class _Output:
    """Destination of lines. They carry a time, which journald adds by itself, once any category logs more than notices:
    the default output is read by people at a terminal and by programs."""

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
    """Write lines by ``write(level, line)`` instead: in a process that is not ours (OpenStack Watcher)."""
    _OUTPUT.write = write


def levels(*texts: str) -> dict[str, int]:
    """Level of each category from these texts (``info``, ``probe.sources=debug,filter=info``); a later text overrides
    an earlier one, a longer name a shorter one. Raises ValueError for an unknown category or level."""
    chosen = dict.fromkeys(CATEGORIES, NOTICE)
    for text in texts:
        for name, level in sorted(_parsed(text)):
            chosen |= {each: level for each in CATEGORIES if not name or f"{each}.".startswith(f"{name}.")}
    return chosen


def apply(chosen: Mapping[str, int]) -> None:
    """Log from now on as chosen by ``levels``."""
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
    from difflib import get_close_matches  # only on errors: it would cost every probe 0.3 MB

    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(known)}"


def _stamp(level: int) -> str:
    """Time (UTC) and level, in front of a line."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    name = next(name for name, number in LEVELS.items() if number == level)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03}Z {name} "


def _value(value: object) -> str:
    """Value of a field as one word: quoted if it would not be one."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    if text and text.isprintable() and not any(sign in text for sign in ' "=\\'):
        return text
    import json

    return json.dumps(text, ensure_ascii=False)


class _Trouble:
    """A lasting problem. ``kinds`` of it were reported already; ``newest`` is when it was last seen, with ``text``."""

    __slots__ = ("began", "kinds", "newest", "text")

    def __init__(self, now: float) -> None:
        self.began = self.newest = now
        self.text = ""
        self.kinds: set[str] = set()


class TroubleLog:
    """``report`` receives lines of text; ``count`` is the number of messages, reported or not."""

    def __init__(self, report: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.report = report
        self._warn: Callable[[str], None] = report.warn if isinstance(report, Category) else report
        self.count = 0
        self._clock = clock
        self._reported: dict[str, float] = {}
        self._troubles: dict[str, _Trouble] = {}

    def tell(self, text: str, kind: str = "") -> None:
        """Report an event, ``text``, that has no end; one of its ``kind`` (by default the text) in ten seconds."""
        self.count += 1
        self._tell(text, kind or text)

    def lasts(self, trouble: str, text: str, kind: str = "", patience: float = _PATIENCE) -> None:
        """Call repeatedly while a problem lasts. ``text`` is reported once for each ``kind`` of it, when it has
        lasted for ``patience`` seconds; and not too soon after the line that such a problem was over."""
        self.count += 1
        now = self._clock()
        found = self._troubles.get(trouble)
        if found is None:
            found = self._troubles[trouble] = _Trouble(now)
        found.newest, found.text = now, text
        if kind not in found.kinds and now - found.began >= patience and self._tell(text, f"{trouble} {kind}"):
            found.kinds.add(kind)

    def fails(self, trouble: str, error: Exception, patience: float = _PATIENCE) -> None:
        """``lasts`` for an error: all errors that pass once the shards are back are of one kind."""
        passing = isinstance(error, ShardError | TemporaryError) or type(error) is UnavailableError
        self.lasts(trouble, str(error), "" if passing else type(error).__name__, patience)

    def over(self, trouble: str, text: str = "") -> None:
        """End of the problem, if there was one; ``text``, unless it is empty, is reported if its beginning was."""
        found = self._troubles.pop(trouble, None)
        if found is not None and found.kinds:
            if text:
                self.report(text)
            for kind in found.kinds:
                self._reported[f"{trouble} {kind}"] = self._clock()

    def calm(self, trouble: str, seconds: float) -> bool:
        """Whether there was such a problem, without a sign of it for ``seconds``."""
        found = self._troubles.get(trouble)
        return found is not None and self._clock() - found.newest >= seconds

    @property
    def trouble(self) -> str:
        """Current problems, reported or not; "" if there are none."""
        return "; ".join([found.text for found in self._troubles.values()])

    def _tell(self, text: str, kind: str) -> bool:
        now = self._clock()
        if now - self._reported.get(kind, float("-inf")) <= _EVERY:
            return False
        self._reported[kind] = now
        self._warn(text)
        return True
