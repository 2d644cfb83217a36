"""The times that vmstat -t and pidstat print, in any locale, as seconds.

Only a replay needs this: the probe has its own clock. Understood are seconds since 1970,
``2026-11-21 13:00:01``, and any text whose first numbers are hour, minute and second
(``13:00:01``, ``01:00:01 PM``, ``UTC 13:00:01``, ``13時00分01秒``). A time of day goes on with
the date of the ISO banner, if there was one, and past midnight.
"""

from __future__ import annotations

import calendar
import re
import time
from typing import NamedTuple

_DAY = 86400
_NUMBERS = re.compile(r"\d+", re.ASCII)
_ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:$|[ T])", re.ASCII)
#: AM and PM as glibc's locales print them (am_pm); others are read as 24 hours.
_AM = frozenset(("am", "오전", "上午", "午前", "πμ", "de", "sa"))
_PM = frozenset(("pm", "오후", "下午", "午後", "μμ", "du", "ch"))
_BETWEEN_WORDS = re.compile(r"[\s\d:]+")


class Moment(NamedTuple):
    """``text``: ISO 8601 (``Z`` only for seconds since 1970), without a date where none is known;
    ``seconds``: on a scale that goes on past midnight."""

    text: str
    seconds: float


class ToolClock:
    """Turns the printed times of one capture, in their order, into moments."""

    def __init__(self) -> None:
        self._date: int | None = None  # seconds since 1970 of the banner's day
        self._day = 0
        self._time_of_day = -1

    def begin(self, date: str) -> None:
        """A banner with this date; only ISO dates are clear without knowing the locale."""
        found = _ISO_DATE.match(date)
        self._date = _date_of(found) if found else None
        self._day = 0
        self._time_of_day = -1

    def read(self, text: str) -> Moment | None:
        """The moment in ``text``, or None when there is none in it."""
        if text.isascii() and text.isdigit() and 9 <= len(text) <= 11:
            return Moment(_iso(int(text)) + "Z", float(text))
        date = _ISO_DATE.match(text)
        time_of_day = _time_of_day(text[date.end() :] if date else text)
        if time_of_day is None:
            return None
        if date:
            day = _date_of(date)
            return None if day is None else Moment(_iso(day + time_of_day), float(day + time_of_day))
        if time_of_day < self._time_of_day - _DAY // 2:
            self._day += _DAY
        self._time_of_day = time_of_day
        if self._date is None:
            return Moment(_iso(time_of_day)[11:], float(self._day + time_of_day))
        seconds = self._date + self._day + time_of_day
        return Moment(_iso(seconds), float(seconds))


def _time_of_day(text: str) -> int | None:
    numbers = [int(number) for number in _NUMBERS.findall(text)[:3] if len(number) <= 2]
    if len(numbers) != 3:
        return None
    hour, minute, second = numbers
    words = {word.replace(".", "") for word in _BETWEEN_WORDS.split(text.lower())}
    if words & _PM and hour < 12:
        hour += 12
    elif words & _AM and hour == 12:
        hour = 0
    if hour > 23 or minute > 59 or second > 60:
        return None
    return hour * 3600 + minute * 60 + second


def _date_of(found: re.Match[str]) -> int | None:
    year, month, day = (int(number) for number in found.groups())
    if year < 1970 or not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    return calendar.timegm((year, month, day, 0, 0, 0))


def _iso(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
