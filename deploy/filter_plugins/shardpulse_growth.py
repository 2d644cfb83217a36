"""Ansible filters for machines that come and go: pure functions of what the shards answered and of the plan.

What is asked is ``shardpulse shards status --json``, as the registered result of a command; the plan is
``shardpulse_plan``'s. Nothing is remembered between two runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "shardpulse_joining": joining,
        }


def joining(
    asked: Mapping[str, Any], planned: Mapping[str, Sequence[str]], strangers: Sequence[str]
) -> dict[str, list[str]]:
    """What is to be done with planned servers that run and are no members, the ``strangers``.

    As many of them become masters as the cluster has too few, those first that are planned as masters; the others
    become replicas. Returns ``members`` (who answers), ``masters``, ``replicas``, and ``half``: members that were about
    to become replicas when somebody interrupted it.
    """
    rows = _serving(asked)
    alone = {row["address"] for row in rows if row["role"] == "master" and not row["slots"]}
    empty = [address for address in planned["masters"] if address in alone]
    owning = [row for row in rows if row["slots"]]
    missing = max(0, len(planned["masters"]) - len(owning) - len(empty))
    masters = [address for address in strangers if address in planned["masters"]][:missing]
    return {
        "members": [row["address"] for row in rows],
        "masters": masters,
        "replicas": [address for address in strangers if address not in masters],
        "half": [address for address in planned["replicas"] if address in alone],
    }


def _rows(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(asked.get("stdout") or "{}").get("shards", [])
    except ValueError:
        return []
    return rows


def _serving(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [row for row in _rows(asked) if row["answering"] and row["cluster_state"] == "ok"]
