"""docs/prometheus.md lists what is exposed and what alerts."""

from __future__ import annotations

import re

from acquisition.model.identity import host_id
from acquisition.shards.servers.status import ShardStatus
from acquisition.snapshot.reconcile.registered import Registered
from acquisition.snapshot.visibility.workers import Lag, Worker, Workers
from acquisition.wire.status import Status
from filters.prometheus import CLASSIC, render
from filters.prometheus.catalogue import families, markdown
from filters.prometheus.entities import RUNS_TWICE, SHADOW, VM_STATE
from filters.prometheus.inputs import FIGURES
from tests.support import ROOT
from tests.support.exposition_blocks import block, host_entity, process, snapshot
from tests.support.exposition_parts import account, health, table

PAGE = (ROOT / "docs/prometheus.md").read_text()


def test_the_page_holds_the_generated_tables() -> None:
    assert PAGE.endswith(markdown()), "write them again: python -m filters.prometheus.catalogue"


def test_every_family_but_those_of_metrics_is_listed() -> None:
    shards = [ShardStatus("a:1", True, role="replica", memory_limit_bytes=1, pinned=True, lag_bytes=1)]
    workers = Workers((Worker("id", "w", 2.0, 0.5, (0,)),), (), ())
    readers = [Registered("archive", 64, 4.0, 0, 100, 0, 10)]
    condition = health(account("web"), shards=shards, lags=[Lag(0, 1.0)], workers=workers, readers=readers)
    assert condition.books is not None
    without = {"modules": {"host": {"without_value": {"MISSING": 1}}}}
    statuses = {host_id("web"): Status("web", 1.0, {}, without)}
    condition = condition._replace(books=condition.books._replace(statuses=statuses))
    web = block("web", "host", [host_entity("web")], exceptions=[(0, 3, 1.0), (1, 1, 1.0)])
    tables = {(web.host_id, web.set_id): table(web, ("cpu_ratio",), seen=3)}
    found = snapshot(web, block("web", "processes", [process("web", 1, "init")]))
    text = render(found, condition, form=CLASSIC, tables=tables, outcomes={"hot": [web.host_id]})
    exposed = set(re.findall(r"^# TYPE (\w+)", text.decode(), re.MULTILINE))
    listed = {family.series_name for rows in families().values() for family in rows}
    metrics = {name for name in exposed if name.startswith(("shardpulse_host_", "shardpulse_processes_"))}
    assert exposed - metrics == listed - {each.series_name for each in (SHADOW, VM_STATE, RUNS_TWICE)}  # no VM


def test_families_have_what_the_formats_demand() -> None:
    names = [family.name for rows in families().values() for family in rows]
    assert len(names) == len(set(names))
    for rows in families().values():
        for family in rows:
            assert family.help
            assert not family.name.endswith(("_total", "_info", "_count", "_sum", "_bucket"))
            assert not family.unit or family.name.endswith(f"_{family.unit}")


def test_the_page_lists_every_alert_with_its_severity() -> None:
    rules = (ROOT / "deploy/prometheus/shardpulse.rules.yml").read_text()
    alerts = re.findall(r"alert: (\w+)\n.*?severity: (\w+)", rules, re.DOTALL)
    assert re.findall(r"^\| (Shardpulse\w+) \| (\w+) \|", PAGE, re.MULTILINE) == alerts


def test_the_page_names_every_decision_input() -> None:
    for figure in FIGURES.values():
        assert f"_{figure.word}_{figure.unit or 'ratio'}`" in PAGE, figure


def test_verdicts_are_counted_and_named_unless_not_hot() -> None:
    web, db = (block(name, "host", [host_entity(name)]) for name in ("web", "db"))
    outcomes = {"hot": [], "suspect": [web.host_id], "saturated": [], "abstained": [], "not_hot": [db.host_id]}
    text = render(snapshot(web, db), outcomes=outcomes).decode()
    assert re.findall(r'^shardpulse_snapshot_verdicts\{outcome="(\w+)"\} (\d)$', text, re.MULTILINE) == [
        (outcome, str(len(hosts))) for outcome, hosts in outcomes.items()
    ]
    assert re.findall(r"^shardpulse_snapshot_verdict\{(.*)\} 1$", text, re.MULTILINE) == [
        'host="web",outcome="suspect"'
    ]
    assert b"snapshot_verdict" not in render(snapshot(web, db))  # where nobody judges
