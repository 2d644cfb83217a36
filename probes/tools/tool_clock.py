"""Times printed by vmstat -t, pidstat and ``date``, in seconds.

Any locale is understood.

Only a replay needs this: the probe has its own clock. Accepted are seconds since 1970,
``2026-11-21 13:00:01``, and times of day, with seconds or without. Of glibc's 360 locales some print the hour
of twelve with their own words for am and pm, before or after it, or without any. So an hour from 1 to 12
is accepted only if nothing but numbers is printed (``09:00:01``), if each number has one
character as its unit (``09時00分01秒``), or with AM or PM; any other is unknown. (Armenian and Samoan locales
print the hour of twelve and nothing else, which looks like all others.) A time of day continues the date of
the ISO banner, if there was one, and past midnight.
"""

from __future__ import annotations

import calendar
import re
import time
from typing import NamedTuple

_DAY = 86400
_ISO_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:$|[ T])", re.ASCII)
#: Numbers other than an offset from UTC.
_NUMBERS = re.compile(r"(?<![\d+-])\d+", re.ASCII)
_PLAIN = re.compile(r"\d{1,2}([:.])\d\d(?:\1\d\d)?", re.ASCII)
_HOUR_AND_MINUTE = re.compile(r"\d[:.]\d\d", re.ASCII)
_WITH_UNITS = re.compile(r"(?:[0-9]{1,2}[^\W\d_] ?){3}")
_BETWEEN_WORDS = re.compile(r"[\s\d:]+")
#: ``date`` in the C locale and in English ones, with or without the ``zzz ***`` of OSWatcher before it.
_STAMP = re.compile(
    r"(?:zzz )?\W*[A-Za-z]{3} (?:([A-Za-z]{3}) (\d{1,2})|(\d{1,2}) ([A-Za-z]{3}) (\d{4})) "
    r"(\d\d:\d\d:\d\d(?: [AP]M)?)(?: [A-Za-z0-9+-]+)??(?: (\d{4}))?", re.ASCII,
)  # fmt: skip
_OFFSET = re.compile(r"(?<=\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d| [A-Z]{3,5})$", re.ASCII)


class Moment(NamedTuple):
    """``text``: ISO 8601 (``Z`` only for seconds since 1970), without a date if none is known;
    ``seconds``: on a scale that continues past midnight; ``exact``: False if seconds were not printed."""

    text: str
    seconds: float
    exact: bool = True


class ToolClock:
    """Turns the printed times of one capture, in their order, into moments."""

    def __init__(self) -> None:
        self._date: int | None = None  # seconds since 1970 of the banner's day
        self._day = 0
        self._time_of_day = -1

    def begin(self, date: str) -> None:
        """Process a banner with this date; only ISO dates are clear without knowing the locale."""
        found = _ISO_DATE.match(date)
        self._date = _date_of(found) if found else None
        self._day = 0
        self._time_of_day = -1

    def read(self, text: str) -> Moment | None:
        """The moment in ``text``, or None if none is certain."""
        if text.isascii() and text.isdigit() and 9 <= len(text) <= 11:
            return Moment(iso(int(text)) + "Z", float(text))
        date = _ISO_DATE.match(text)
        found = _time_of_day(text[date.end() :] if date else text)
        if found is None:
            return None
        time_of_day, exact = found
        if date:
            day = _date_of(date)
            return None if day is None else _moment(day + time_of_day, exact)
        if time_of_day < self._time_of_day - _DAY // 2:
            self._day += _DAY
        self._time_of_day = time_of_day
        if self._date is None:
            text = _moment(time_of_day, exact).text[11:]
            return Moment(text, float(self._day + time_of_day), exact)
        return _moment(self._date + self._day + time_of_day, exact)

    def read_stamp(self, text: str) -> Moment | None:
        """The moment in a line of ``date`` (C, English or ISO 8601), or of OSWatcher (``zzz ***`` before it)."""
        found = _STAMP.fullmatch(text)
        if found is None:
            return self.read(_OFFSET.sub("", text)) if _ISO_DATE.match(text) else None
        month, day, other_day, other_month, year, clock, last_year = found.groups()
        date = f"{year or last_year} {month or other_month} {day or other_day}"
        try:
            parsed = time.strptime(date, "%Y %b %d")
        except ValueError:
            return None
        return self.read(f"{time.strftime('%Y-%m-%d', parsed)} {clock}")


def _time_of_day(text: str) -> tuple[int, bool] | None:
    """Seconds since midnight and whether seconds were printed; None if it is not a time or not certain."""
    text = text.strip()
    found = _NUMBERS.findall(text)[:3]
    if len(found) < 2 or max(map(len, found)) > 2 or (len(found) == 2 and not _HOUR_AND_MINUTE.search(text)):
        return None
    hour, minute, second = (*map(int, found), 0)[:3]
    words = {word.replace(".", "") for word in _BETWEEN_WORDS.split(text.lower())}
    if len(words & {"am", "pm"}) == 1:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * ("pm" in words)
    elif 1 <= hour <= 12 and not _PLAIN.fullmatch(text) and not _WITH_UNITS.fullmatch(text):
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    return hour * 3600 + minute * 60 + second, len(found) == 3


def _moment(seconds: int, exact: bool) -> Moment:
    text = iso(seconds)
    return Moment(text if exact else text[: -len(":00")], float(seconds), exact)


def _date_of(found: re.Match[str]) -> int | None:
    year, month, day = (int(number) for number in found.groups())
    if year < 1970 or not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    return calendar.timegm((year, month, day, 0, 0, 0))


def iso(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
