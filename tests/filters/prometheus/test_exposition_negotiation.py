"""Content negotiation: what each scraper that exists asks for, and what nobody should ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters.prometheus import CLASSIC, OPENMETRICS, negotiate


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",  # curl
        "application/openmetrics-text",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        # Prometheus 2.42 and 2.50
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "text/plain;version=0.0.4;q=0.3,application/openmetrics-text;q=0.9",
        "text/plain;version=9.9.9",  # neither: no reason for an error
        "application/json",
        "text/plain;q=0",
        "text/plain;q=nonsense",
        "text/plain;q=nan",
        "text/plain;q=2",
        "application/*",
    ],
)
def test_openmetrics(accept: str | None) -> None:
    assert negotiate(accept) is OPENMETRICS


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "TEXT/Plain; Version=0.0.4",
        "text/plain;version=0.0.4;q=1,*/*;q=0.1",  # Prometheus with the text format as its protocol
        "application/openmetrics-text;q=0.2, text/plain;q=0.3",
        "application/openmetrics-text;version=2.0.0,text/plain;q=0.5",
        "application/openmetrics-text;q=0,*/*",
        'text/plain;version="0.0.4"',
        "text/*",
    ],
)
def test_classic(accept: str) -> None:
    assert negotiate(accept) is CLASSIC


@given(st.text())
def test_any_header_has_an_answer(accept: str) -> None:
    assert negotiate(accept) in (OPENMETRICS, CLASSIC)


def test_a_huge_header_costs_nothing() -> None:
    assert negotiate("text/plain;q=0.1," * 1_000_000 + "text/plain") is CLASSIC


def test_content_types() -> None:
    assert OPENMETRICS.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert CLASSIC.content_type == "text/plain; version=0.0.4; charset=utf-8"
