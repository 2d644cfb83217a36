"""Shards that answer and have no layout are waited for from then on, however long they were away before."""

from __future__ import annotations

import math

from acquisition.errors import ConfigError, UnavailableError
from acquisition.link.layouts import LAYOUT_SECONDS, LayoutPatience

AWAY, WITHOUT = UnavailableError("no shards"), ConfigError("no layout")


def test_shards_that_come_late_have_time_for_their_layout() -> None:
    patience = LayoutPatience(math.inf, 0.0)
    assert not patience.ends(AWAY, 1000.0)
    assert not patience.ends(WITHOUT, 1001.0)
    assert not patience.ends(WITHOUT, 1001.0 + LAYOUT_SECONDS - 0.1)
    assert patience.ends(WITHOUT, 1001.0 + LAYOUT_SECONDS)


def test_shards_that_go_away_again_have_it_again() -> None:
    patience = LayoutPatience(math.inf, 0.0)
    assert not patience.ends(WITHOUT, 1.0)
    assert not patience.ends(AWAY, LAYOUT_SECONDS)
    assert not patience.ends(WITHOUT, 2.0 * LAYOUT_SECONDS)


def test_nobody_waits_longer_than_told() -> None:
    patience = LayoutPatience(2.0, 5.0)
    assert not patience.ends(AWAY, 6.9)
    assert patience.ends(AWAY, 7.0)
    assert patience.ends(WITHOUT, 7.0)
