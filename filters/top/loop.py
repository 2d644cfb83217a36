"""Live loop: readings, keys and signals in, lines out, until the user quits."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Mapping

from rich.text import Text

from acquisition.errors import EXIT_OK, ShardpulseError
from filters.runtime.memory import Sweeper
from filters.top.contents import Contents, develop, enter, place_of, settled, shown
from filters.top.key_actions import apply_key, decode
from filters.top.look import Look
from filters.top.reading import Feed, Wanted
from filters.top.screen import Frame, Screen, render
from filters.top.terminal import STOPS, Signals, Terminal
from filters.top.view import SHARDS, Page, View

_ESCAPE_SECONDS = 0.1  #: time limit for the rest of a control sequence; a lone Esc has none


class Session:
    """State between two events. ``view`` and ``contents`` are values; this holds the newest ones."""

    def __init__(
        self,
        feed: Feed,
        terminal: Terminal,
        signals: Signals,
        view: View,
        look: Look,
        set_names: Mapping[int, str],
    ) -> None:
        self._feed, self._terminal, self._signals = feed, terminal, signals
        self._look, self._set_names = look, set_names
        self.view = view
        self._contents: Contents | None = None
        self._page = Page()
        self._read_at = 0.0
        self._typed = b""

    def run(self) -> int:
        """Run until a key or a signal ends it. Raises the error of the first reading, and unexpected ones."""
        poll = select.poll()
        for source in (self._terminal.keyboard, self._feed, self._signals):
            poll.register(source, select.POLLIN)
        sweeper = Sweeper()
        while not self.view.done:
            sweeper.turn(time.monotonic())
            self._draw()
            ready = {fd for fd, _ in poll.poll(self._patience())}
            if self._signals.fileno() in ready:
                self._obey(self._signals.take())
            if self._feed.fileno() in ready:
                self._observe()
            if self._terminal.keyboard in ready:
                self._type()
            elif self._typed:
                self._press(*decode(self._typed, final=True))
        return EXIT_OK

    def _patience(self) -> float | None:
        """Milliseconds until something is due without input."""
        if self._typed:
            return _ESCAPE_SECONDS * 1000
        return 1000.0 if self._still() is not None else None

    def _still(self) -> float | None:
        """Seconds for which the picture has been unchanged, if it is."""
        if self._contents is None or not (self.view.paused or self._contents.observation.error):
            return None
        return time.monotonic() - self._read_at

    def _draw(self) -> None:
        screen = self._compose()
        if screen is None:
            self._terminal.draw([Text("shardpulse top: reading ...")])
        else:
            level = self.view.level
            place = place_of(level) if level.host else None
            self._feed.ask(Wanted(self.view.host, level.kind == SHARDS, place))
            self._terminal.draw(screen.lines)

    def _compose(self) -> Screen | None:
        """Screen of the current contents and view; None without contents."""
        if self._contents is None:
            return None
        self._contents = enter(self._contents, self.view)
        self.view = settled(self.view, self._contents)
        self._contents = enter(self._contents, self.view)
        size, clock = self._terminal.size(), time.strftime("%H:%M:%S")
        frame = Frame(size.columns, size.lines, self._look, clock, self._still(), self._set_names)
        screen = render(self._contents, self.view, frame)
        self.view, self._page = screen.view, screen.page
        return screen

    def _observe(self) -> None:
        outcome = self._feed.take()
        if isinstance(outcome, ShardpulseError) and self._contents is not None:
            failed = self._contents.observation._replace(error=str(outcome))
            self._contents = self._contents._replace(observation=failed)
        elif isinstance(outcome, Exception):
            raise outcome
        elif outcome is not None and self._contents is not None and self._frozen():
            self._contents = self._contents._replace(observation=self._contents.observation._replace(error=""))
        elif outcome is not None:
            self._contents = develop(self._contents, outcome, self.view)
            self._read_at = time.monotonic()

    def _frozen(self) -> bool:
        """Whether it is paused, with everything to show available."""
        if not self.view.paused or self._contents is None:
            return False
        if self.view.level.kind == SHARDS:
            return self._contents.observation.health is not None
        return not self.view.level.host or shown(self._contents, self.view.level)[0] is not None

    def _type(self) -> None:
        data = self._terminal.read()
        if not data:
            self.view = self.view._replace(done=True)
            return
        self._press(*decode(self._typed + data))

    def _press(self, keys: list[str], rest: bytes) -> None:
        """Apply keys in order; each refers to the page after the previous one."""
        self._typed = rest
        for i, key in enumerate(keys):
            if i:
                self._compose()
            if key == "redraw":
                self._terminal.forget()
            if not self.view.done:
                self.view = apply_key(self.view, key, self._page)

    def _obey(self, numbers: set[int]) -> None:
        if numbers & set(STOPS):
            self.view = self.view._replace(done=True)
        elif signal.SIGTSTP in numbers:
            self._terminal.leave()
            self._signals.suspend()
            self._terminal.enter()
        elif signal.SIGCONT in numbers:
            self._terminal.enter()
        elif signal.SIGWINCH in numbers:
            self._terminal.forget()
