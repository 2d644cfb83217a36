"""The policy of moves: limits that hold whatever rule, selection and placement are chosen.

Its table is part of the configuration (``[decisions.policy]``), so it is defined there.
"""

from __future__ import annotations

from acquisition.config.decisions import Policy

__all__ = ["Policy"]
