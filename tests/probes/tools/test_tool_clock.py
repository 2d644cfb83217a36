import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.tools.tool_clock import ToolClock


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("13:00:01", "13:00:01"),
        ("01:00:01 PM", "13:00:01"),
        ("12:00:01 AM", "00:00:01"),
        ("12:00:01 PM", "12:00:01"),
        ("1:00:01 p.m. UTC", "13:00:01"),
        ("09时00分01秒", "09:00:01"),
        ("09시 00분 01초", "09:00:01"),
        ("09.00.01", "09:00:01"),
        ("下午 13时00分01秒", "13:00:01"),
        ("00:00:01 UTC", "00:00:01"),
        ("kl. 17.37 +0000", "17:37"),
        ("09:37", "09:37"),
        ("UTC 13:00:01", "13:00:01"),
        ("13:00:01 +02", "13:00:01"),
        ("1792000000", "2026-10-14T17:46:40Z"),
        ("2026-11-21 13:00:01", "2026-11-21T13:00:01"),
    ],
)
def test_times_of_many_locales(text: str, expected: str) -> None:
    moment = ToolClock().read(text)
    assert moment is not None
    assert moment.text == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "Average:", "25:00:00", "12:61:00", "12", "2026-13-41 12:00:00", "9" * 9 + "x", "load 1 2",
        "+13:00", "01:00:01 μμ", "下午 01时00分01秒", "오후 01시 00분 01초", "05:37:41 अपराह्न UTC",
        "05:37:41 UTC", "సా.05.37.41 UTC", "5:37:41፡ጽባሕ", "05:37:41 PD", "kl. 05.37 +0000", "13:00:01 AM",
        "00:00:01 PM", "am pm 05:37:41",
    ],
)  # fmt: skip
def test_what_is_no_time_for_certain(text: str) -> None:
    assert ToolClock().read(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zzz ***Tue Apr 22 10:00:03 PDT 2014", "2014-04-22T10:00:03"),
        ("zzz *** Tue Apr  2 22:00:03 UTC 2014", None),
        ("Tue Apr 2 22:00:03 UTC 2014", "2014-04-02T22:00:03"),
        ("Tue Apr 22 10:00:03 PM PDT 2014", "2014-04-22T22:00:03"),
        ("Tue 22 Apr 2014 10:00:03 AM +03", "2014-04-22T10:00:03"),
        ("2014-04-22 10:00:03", "2014-04-22T10:00:03"),
        ("2014-04-22T10:00:03+02:00", "2014-04-22T10:00:03"),
        ("zzz ***Di 22. Apr 10:00:03 CEST 2014", None),
        ("zzz ***Tue Foo 22 10:00:03 PDT 2014", None),
        ("10:00:01 LINUX RESTART", None),
        ("zzz", None),
    ],
)
def test_stamps_between_runs(text: str, expected: str | None) -> None:
    moment = ToolClock().read_stamp(text)
    assert (moment and moment.text) == expected


def test_the_date_of_the_banner_goes_on_past_midnight() -> None:
    clock = ToolClock()
    clock.begin("2024-02-28")
    texts = ["23:59:59", "00:00:00", "23:59:59", "00:00:00"]
    moments = [clock.read(text) for text in texts]
    assert [moment.text for moment in moments if moment] == [
        "2024-02-28T23:59:59",
        "2024-02-29T00:00:00",
        "2024-02-29T23:59:59",
        "2024-03-01T00:00:00",
    ]


def test_an_hour_back_is_an_hour_back() -> None:
    clock = ToolClock()
    clock.begin("10/27/24")
    before, after = clock.read("02:59:59"), clock.read("02:00:00")
    assert before is not None
    assert after is not None
    assert after.seconds - before.seconds == -3599
    assert after.text == "02:00:00"


@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=12))
def test_no_text_raises(texts: list[str], date: str) -> None:
    clock = ToolClock()
    clock.begin(date)
    for text in texts:
        clock.read(text)
        clock.read_stamp(text)
