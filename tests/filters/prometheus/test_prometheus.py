"""A real Prometheus scrapes the real service over a live pipeline, and a data center made in memory.

What is shipped is what runs here: the example configuration, the alert rules, the queries of the dashboard.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from acquisition.shards.servers.launch import start_shards
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.states import LATE
from filters.prometheus import CLASSIC, Options, negotiate, render
from probes.metrics import HOST, PROCESSES, VMS
from tests.support import ROOT
from tests.support.exposition_blocks import block, host_entity, process, snapshot
from tests.support.exposition_parts import table
from tests.support.prometheus_server import (
    Prometheus,
    answering,
    prometheus,
    shardpulse,
)
from tests.support.waiting import eventually

pytestmark = [pytest.mark.needs("promtool"), pytest.mark.slow]

RULES = ROOT / "deploy/prometheus/shardpulse.rules.yml"
DASHBOARD = json.loads((ROOT / "deploy/grafana/shardpulse.json").read_text())
HOSTILE = ('"', "\\", "\n# EOF\n", "\r", "%s%", "{}", "\\n", "\ud800", "\x00", "é🜲", "", " ", "x" * 3000)
_NAME = re.compile(r"shardpulse[:_][a-z0-9_:]+")


def data_center(late: bool = False) -> Snapshot:
    """Two hosts with every metric that there is; process names are hostile; one host can be late."""
    blocks = []
    for host in ("web", "db"):
        rows = [process(host, pid, name, {name: name}) for pid, name in enumerate(HOSTILE)]
        blocks += [
            block(host, "host", [host_entity(host)], HOST.metrics),
            block(host, "processes", rows, PROCESSES.metrics, exceptions=[(1, 3, 2.0)]),
            block(host, "vms", rows[4:6], VMS.metrics),
        ]
    if late:
        for one in blocks[:3]:
            one.has_values, one.state, one.age_seconds = False, LATE, 4.0
    return snapshot(*blocks)


class Memory:
    """A target whose snapshot tests may change; ``asked`` are the Accept headers of the scrapes."""

    def __init__(self) -> None:
        self.snapshot = data_center()
        self.asked: list[str | None] = []

    def answer(self, accept: str | None) -> tuple[str, bytes]:
        self.asked.append(accept)
        form = negotiate(accept)
        return form.content_type, render(self.snapshot, form=form)


class Scraped(NamedTuple):
    server: Prometheus
    memory: Memory
    memory_address: str
    service_address: str
    addresses: str  #: of the shards


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A pipeline of this machine, its service, and a Prometheus that has scraped both targets."""
    directory = tmp_path_factory.mktemp("prometheus")
    memory = Memory()
    with start_shards(2, directory / "shards", maxmemory_bytes=128 << 20) as shards, answering(memory.answer) as fake:
        addresses = ",".join(str(address) for address in shards.addresses)
        config = directory / "shardpulse.toml"
        config.write_text(f'[host]\nname = "the-probe"\n[probe]\nring_path = "{directory}/ring"\n')
        more = ("--config", str(config), "--shards", addresses)
        with (
            shardpulse(directory / "filter.log", "filter", *more),
            shardpulse(directory / "probe.log", "probe", *more),
            shardpulse(directory / "serve.log", "serve", "--bind", "127.0.0.1:0", *more) as serve,
        ):
            assert serve.stdout is not None
            service = re.search(r"[\d.]+:\d+$", serve.stdout.readline().strip())
            assert service, (directory / "serve.log").read_text()
            with prometheus(directory, configuration(fake, service[0])) as server:
                eventually(lambda: server.query('shardpulse_host_cpu_idle_ratio{host="the-probe"}'))
                eventually(lambda: server.query('shardpulse:host_cpu_busy:ratio{host="the-probe"}'))
                yield Scraped(server, memory, fake, service[0], addresses)


def configuration(*targets: str) -> str:
    """The example that is shipped, with other targets, shorter intervals and the path of the rules."""
    text = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
    for old, new in (
        ('["127.0.0.1:7680"]', json.dumps(targets)),
        ("interval: 5s", "interval: 1s"),
        ("scrape_timeout: 4s", "scrape_timeout: 1s"),
        ("- shardpulse.rules.yml", f"- {RULES}"),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def check(*arguments: str, data: bytes | None = None) -> str:
    done = subprocess.run(["promtool", *arguments], input=data, capture_output=True, timeout=60)
    output = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, output
    return output


def test_promtool_finds_nothing_to_complain_about(scraped: Scraped) -> None:
    command = [sys.executable, "-m", "acquisition", "metrics", "--classic", "--shards", scraped.addresses]
    done = subprocess.run(command, capture_output=True, check=True, timeout=30)
    assert b"\nshardpulse_shard_up" in done.stdout
    assert check("check", "metrics", data=done.stdout) == ""
    found = data_center()
    tables = {
        (one.host_id, one.set_id): table(one, [metric.name for metric in one.metrics], seen=3) for one in found.blocks
    }
    options = Options(inputs="all")
    text = render(found, form=CLASSIC, options=options, tables=tables)
    assert b"\nshardpulse_vms_cpu_ratio_above_ticks{" in text
    assert check("check", "metrics", data=text) == ""


def test_rules_and_example_are_valid() -> None:
    assert "SUCCESS: 19 rules found" in check("check", "rules", str(RULES))
    check("check", "config", str(ROOT / "deploy/prometheus/prometheus.yml"))


def test_each_alert_fires_when_it_should() -> None:
    tests = ROOT / "tests/fixtures/prometheus/shardpulse.rules.test.yml"
    check("test", "rules", str(tests))
    for alert in re.findall(r"- alert: (\w+)", RULES.read_text()):
        assert f"alertname: {alert}\n" in tests.read_text(), f"{alert} has no case in which it fires"


def up(server: Prometheus, target: str) -> bool:
    return server.value(f'up{{instance="{target}"}}') == 1


def test_both_targets_are_up_and_every_sample_was_taken(scraped: Scraped) -> None:
    for target in (scraped.memory_address, scraped.service_address):
        eventually(partial(up, scraped.server, target))
    text = render(scraped.memory.snapshot).decode()
    lines = sum(not line.startswith("#") for line in text.split("\n")[:-1])
    assert scraped.server.value(f'scrape_samples_scraped{{instance="{scraped.memory_address}"}}') == lines
    assert (
        scraped.server.value(f'scrape_samples_post_metric_relabeling{{instance="{scraped.memory_address}"}}') == lines
    )
    assert [negotiate(accept) for accept in scraped.memory.asked[:1]] == [negotiate("application/openmetrics-text")]


def test_hostile_names_are_what_prometheus_stores(scraped: Scraped) -> None:
    stored = scraped.server.query('shardpulse_processes_cpu_ratio{host="web"}')
    wanted = {name.replace("\ud800", "\\ud800") for name in HOSTILE}
    assert {series["metric"].get("entity", "") for series in stored} == wanted
    assert len(stored) == len(HOSTILE)


def test_the_live_pipeline_is_told_about(scraped: Scraped) -> None:
    server = scraped.server
    assert 0 <= server.value('shardpulse_host_cpu_idle_ratio{host="the-probe"}') <= 1
    assert server.value('shardpulse_set_age_seconds{host="the-probe",resource_set="host"}') < 10
    assert server.value("shardpulse_filter_workers") == 1
    assert server.value("shardpulse_books_balanced") == 1
    assert server.value("sum(shardpulse_shard_up)") == 2
    assert server.value('sum(shardpulse_set_applied_samples_total{host="the-probe"})') > 0
    metadata = server.get("metadata", metric="shardpulse_host_memory_available_bytes")
    assert {(row["type"], row["unit"]) for row in metadata["shardpulse_host_memory_available_bytes"]} == {
        ("gauge", "bytes")
    }


def test_a_scrape_chooses_its_cardinality(scraped: Scraped) -> None:
    def names(query: str) -> set[str]:
        with urllib.request.urlopen(f"http://{scraped.service_address}/metrics{query}", timeout=5) as answer:
            return set(re.findall(r"^# TYPE (\w+)", answer.read().decode(), re.MULTILINE))

    entities = {"shardpulse_processes_cpu_ratio", "shardpulse_processes_cpu_last_ratio"}
    assert names("") & entities == {"shardpulse_processes_cpu_ratio"}
    assert names("?figure=mean,last") & entities == entities
    limited = names("?entities=no")
    assert not [name for name in limited if name.startswith("shardpulse_processes_")]
    assert "shardpulse_host_cpu_idle_last_ratio" in limited
    with pytest.raises(urllib.error.HTTPError, match="400"):
        names("?entities=perhaps")


def test_all_rules_are_evaluated_without_errors(scraped: Scraped) -> None:
    def evaluated() -> list[dict[str, str]]:
        rules = [rule for group in scraped.server.get("rules")["groups"] for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = eventually(evaluated)
    assert len(rules) == 19
    assert [rule.get("lastError", "") for rule in rules if rule["health"] != "ok"] == []


def expressions() -> list[tuple[str, str]]:
    """Every query of the dashboard with its panel."""
    found = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    found += [(row["name"], row["query"]["query"]) for row in DASHBOARD["templating"]["list"] if row["type"] == "query"]
    return found + [(row["name"], row["expr"]) for row in DASHBOARD["annotations"]["list"]]


def concrete(expression: str) -> str:
    """A query as Grafana sends it, with all services and hosts chosen."""
    for variable, value in (("$instance", ".*"), ("$host", ".*"), ("$__rate_interval", "15s")):
        expression = expression.replace(variable, value)
    assert "$" not in expression, expression
    variable = re.fullmatch(r"label_values\((.*), (\w+)\)", expression)
    return f"group by ({variable[2]}) ({variable[1]})" if variable else expression


def test_every_name_in_dashboard_and_rules_is_exposed_or_recorded(scraped: Scraped) -> None:
    asked = {name for _, expression in expressions() for name in _NAME.findall(expression)}
    rules = [
        line for line in RULES.read_text().splitlines() if not re.search(r"^\s*- (name|record)|summary|descr", line)
    ]
    asked |= set(_NAME.findall("\n".join(rules)))
    assert len(asked) > 30
    optional = {
        "shardpulse_shard_replica_in_sync", "shardpulse_reader_behind_seconds", "shardpulse_reader_expired_partitions",
        "shardpulse_vm_runs_twice",
    }  # fmt: skip  # these shards have neither replicas nor an archive, and no VM runs twice
    assert eventually(lambda: asked - set(scraped.server.get("label/__name__/values")) == optional)


@pytest.mark.parametrize(("panel", "expression"), expressions())
def test_every_query_of_the_dashboard_has_an_answer(scraped: Scraped, panel: str, expression: str) -> None:
    found = eventually(lambda: scraped.server.query(concrete(expression)) or panel == "Alerts")
    assert found, f"{panel}: {expression}"


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_a_host_that_becomes_late_is_a_gap_at_once(scraped: Scraped) -> None:
    """Samples without timestamps: what is absent in a scrape is gone, instead of lingering for five minutes."""
    server, selector = scraped.server, f'{{instance="{scraped.memory_address}",host="web"}}'
    assert server.query(f"shardpulse_host_cpu_idle_ratio{selector}")
    scraped.memory.snapshot = data_center(late=True)
    try:
        eventually(lambda: not server.query(f"shardpulse_host_cpu_idle_ratio{selector}"), 60.0)
        assert server.value(f"max(shardpulse_set_current{selector})") == 0
        assert server.value(f"max(shardpulse_set_age_seconds{selector})") == 4.0
        assert server.query(f'shardpulse_host_cpu_idle_ratio{{instance="{scraped.memory_address}",host="db"}}')
    finally:
        scraped.memory.snapshot = data_center()
