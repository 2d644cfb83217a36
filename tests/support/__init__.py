"""Support of tests: scenes, feeders, real servers, and paths.

The paths are those of the checkout and the fixtures.
"""

from __future__ import annotations

from pathlib import Path

from acquisition import extras

extras.explain()

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
