"""The dashboard against Grafana's own schema: every word in it is one that Grafana knows.

Grafana's Python SDK (grafana-foundation-sdk, generated from its schemas) reads the dashboard into typed values, with
the options of each kind of panel and of Prometheus queries, and drops what it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.support import ROOT

DASHBOARD = json.loads((ROOT / "deploy/grafana/shardpulse.json").read_text())
#: Of annotations by Prometheus: Grafana reads them, its schema leaves them to the data source.
_OF_THE_SOURCE = {"annotations.list.0.expr", "annotations.list.0.titleFormat"}


def lost(written: Any, kept: Any, path: str = "") -> Iterator[str]:
    """The places of ``written`` that ``kept`` has not, or has otherwise."""
    if isinstance(written, dict) and isinstance(kept, dict):
        for key, value in written.items():
            place = f"{path}.{key}".lstrip(".")
            if key in kept:
                yield from lost(value, kept[key], place)
            else:
                yield place
    elif isinstance(written, list) and isinstance(kept, list) and len(written) == len(kept):
        for number, (one, other) in enumerate(zip(written, kept, strict=True)):
            yield from lost(one, other, f"{path}.{number}")
    elif written != kept:
        yield path


def through_the_schema(dashboard: dict[str, Any]) -> Any:
    plugins.register_default_plugins()
    return json.loads(encoder.JSONEncoder().encode(Dashboard.from_json(dashboard)))


def test_grafana_knows_every_word_of_the_dashboard() -> None:
    assert set(lost(DASHBOARD, through_the_schema(DASHBOARD))) <= _OF_THE_SOURCE


def test_a_word_that_it_does_not_know_is_found() -> None:
    changed = json.loads(json.dumps(DASHBOARD))
    panel = next(panel for panel in changed["panels"] if panel["type"] == "timeseries")
    panel["options"]["legend"]["calks"] = []
    panel["fieldConfig"]["defaults"]["custom"]["drawStile"] = "line"
    panel["targets"][0]["legendForm"] = "{{host}}"
    found = {place.rpartition(".")[2] for place in lost(changed, through_the_schema(changed))}
    assert found >= {"calks", "drawStile", "legendForm"}
