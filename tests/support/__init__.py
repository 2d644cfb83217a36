"""What tests share: scenes, feeders, real servers, and where the checkout and the fixtures lie."""

from __future__ import annotations

from pathlib import Path

from acquisition import extras

extras.explain()

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
