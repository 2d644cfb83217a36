"""The page in headless Chromium, against a real service on real shards with a real filter."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from experiments.harness.chromium import Page, chromium
from tests.support import ROOT
from tests.support.page_scene import HOSTILE, Data
from tests.support.processes import started

from tests.support.data_center import Guest, Machine  # isort: skip  # page_scene makes it importable
from tests.support.serving import Serving  # isort: skip
from tests.support.untested import require  # isort: skip
from tests.support.waiting import PATIENCE

PAGE = ROOT / "filters" / "page"
LIVE = "document.body.dataset.connection === 'live'"
OPTION = "document.getElementById('heat-focus').textContent"
TEXT = "document.getElementById('{}').textContent"
#: The contrast of the text on every colour of the scale with that colour (WCAG 2).
CONTRASTS = """import('/scripts/scale.js').then(({ css, darkText }) => {
  const light = channel => channel <= 0.04045 * 255 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4;
  const all = [];
  for (const theme of ['dark', 'light']) for (let step = 0; step <= 100; step += 1) {
    const [red, green, blue] = css(theme, step / 100).match(/\\d+/g).map(Number).map(light);
    const ground = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    all.push(darkText(theme, step / 100) ? (ground + 0.05) / 0.05 : 1.05 / (ground + 0.05));
  }
  return all;
})"""
#: What the panel of decisions says of seventy hot hosts.
SEVENTY_HOT = """import('/scripts/decisions_panel.js').then(({ showHot }) => {
  const hot = Array.from({ length: 70 }, (_, i) => ({ id: `${i}`, host: `host-${i}`, reason: 'hot', figures: [] }));
  showHot({ rule: { title: 'made up' }, hosts: 100, hot, abstained: [] });
  return document.getElementById('decisions').textContent;
})"""
#: What the table of VMs shows of one whose CPU has had no valid value for 12 s: CPU, memory, last valid.
OLD_ROW = """import('/scripts/entity_table.js').then(({ EntityTable }) => {
  const table = new EntityTable(() => {});
  const reading = { mean: 0.5, last: 0.5, validity: 'TIMEOUT', stale_seconds: 12, unit: 'cores' };
  const memory = { mean: 2 ** 30, last: 2 ** 30, validity: 'VALID', stale_seconds: 0, unit: 'bytes' };
  const readings = { cpu_ratio: reading, memory_resident_bytes: memory };
  table.show([{ id: '1', name: 'web', kind: 'vm', readings }], '', 'current');
  const cells = [...table.body.firstChild.children].map(cell => cell.textContent);
  return [cells[2], cells[5], cells[8]];
})"""

#: What that table shows of a process: its kind and pid.
PROCESS_ROW = """import('/scripts/entity_table.js').then(({ EntityTable }) => {
  const table = new EntityTable(() => {});
  table.show([{ id: '1', name: 'web', kind: 'process', stable: 'host-1:4711', readings: {} }], '', 'current');
  return [...table.body.firstChild.children].map(cell => cell.textContent)[1];
})"""

#: What it shows of a VM whose process is stopped, and of one that another host takes: name, id, vCPUs, suffering.
VM_ROWS = """import('/scripts/entity_table.js').then(({ EntityTable }) => {
  const table = new EntityTable(() => {});
  const figure = (mean, unit) => ({ mean, last: mean, validity: 'VALID', stale_seconds: 0, unit });
  const readings = {
    cpu_ratio: figure(2, 'cores'), vcpu_count: figure(4, 'count'), vcpu_suffering_ratio: figure(0.5, 'cores'),
    state: figure(2, 'state'),
  };
  const vm = { id: '1', name: 'web', kind: 'vm', owner_id: 'proxmox 302', readings };
  const silent = { ...vm, id: '2', name: 'x', readings: { cpu_ratio: figure(1, 'cores') } };
  table.show([vm, silent], '', 'current');
  const shown = cell => [...cell.childNodes].filter(node => !node.hidden).map(node => node.textContent).join('');
  return [...table.body.children].map(row => [...row.children].slice(0, 5).map(shown));
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    require("chromium")
    with chromium() as page:
        page.size(1280, 800)
        yield page


@pytest.fixture
def page(browser: Page) -> Page:
    browser.call("Page.navigate", url="about:blank")
    browser.problems.clear()
    browser.requests.clear()
    return browser


@pytest.fixture
def data(cluster: Cluster) -> Iterator[Data]:
    machines = [
        Machine(cluster, "busy", [Guest("database", 5.5, 8), Guest("web", 2.0, 2)]),
        Machine(cluster, "calm", [Guest("mail", 0.2, 2)]),
        Machine(cluster, HOSTILE, [Guest("<script>document.title='broken'</script>", 0.5, 2)]),
        Machine(cluster, "nameless", [Guest("blind", 0.5, 2)]),
    ]
    machines[3].sends_host = False
    with Data(cluster, machines) as running:
        yield running


def shown(page: Page, element: str, text: str, seconds: float = PATIENCE) -> None:
    page.until(f"{TEXT.format(element)}.includes({text!r})", seconds)


def opened(page: Page, serving: Serving) -> None:
    page.open(serving.url)
    page.until(f"{LIVE} && document.querySelector('.card.move') && {OPTION} !== 'no host'", 20)


def test_a_person_looks_at_hosts_by_keyboard(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    with Serving(tmp_path, shards.addresses, "[decisions.hosts]\n'<img*' = { maintenance = true }\n") as serving:
        opened(page, serving)
        shown(page, "summary", "4 hosts")
        shown(page, "decisions", "In maintenance: <img src=x")
        shown(page, "decisions", "database: busy → calm")  # moves, with why
        shown(page, "decisions", "why this VM")
        shown(page, "decisions", "what it costs")
        shown(page, "decisions", "whether guests wait is unknown")
        shown(page, "pipeline", "balanced")
        page.evaluate("document.querySelector('.skip a').focus()")
        page.press("Enter")
        page.evaluate("document.getElementById('heat').focus()")
        page.press("Home")
        page.until(f"{OPTION}.startsWith('<img src=x')")
        page.press("ArrowRight")
        page.until(f"{OPTION}.startsWith('busy, CPU 9') && {OPTION}.endsWith('current, hot')")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.press("Enter")
        shown(page, "host", "database")
        shown(page, "host-title", "busy")
        page.until("document.querySelector('.plot canvas') !== null")
        shown(page, "host", "all counted")
        page.evaluate("[...document.querySelectorAll('#host tbody button')].find(b => b.textContent === 'web').click()")
        page.until("document.querySelector('.plot-head h3').textContent === 'web'")
        page.press("Escape")
        page.until("document.getElementById('host').hidden && document.activeElement.id === 'heat'")
        page.press("End")
        page.until(f"{OPTION}.startsWith('nameless, CPU')")
        assert "%" not in page.evaluate(OPTION)  # no figures of its own: a word, never a number
        assert page.problems == []
        assert {request.split("/")[2] for request in page.requests} == {f"127.0.0.1:{serving.port}"}


def test_the_heat_agrees_with_the_hosts(data: Data, shards: Shards, tmp_path: Path) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        serving.until("/v1/moves", lambda reply: reply.status == 200 and bool(reply.json["moves"]))
        roster, heat = serving.ask("/v1/roster").json, serving.ask("/v1/heat").json
        assert roster["roster"] == heat["roster"]
        hosts = {host["id"]: host for host in serving.ask("/v1/hosts?fields=readings,mean").json["hosts"]}
        for place, (key, name) in enumerate(zip(roster["ids"], roster["names"], strict=True)):
            host = hosts[key]
            assert host["name"] == name
            for column, metric in (("cpu", "cpu_busy_ratio"), ("memory", "memory_used_ratio")):
                mean = host["readings"].get(metric, {}).get("mean")
                assert heat[column][place] == (None if mean is None else pytest.approx(1000 * mean, abs=2)), name
        assert heat["cpu"][roster["names"].index("nameless")] is None
        assert heat["outcomes"][roster["names"].index("busy")] == "h"


def test_hostile_names_are_text(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        opened(page, serving)
        page.evaluate(f"location.hash = 'host={data.machines[2].id}'")
        shown(page, "host-title", "<img src=x onerror=")
        shown(page, "host", "<script>document.title")
        assert "\u202e" not in page.evaluate("document.body.textContent")
        assert page.evaluate("document.title") == "shardpulse"
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
        assert page.problems == []


def test_it_says_when_it_is_disconnected_or_stale_and_recovers(
    data: Data, shards: Shards, tmp_path: Path, page: Page
) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        opened(page, serving)
        os.kill(serving.process.pid, signal.SIGSTOP)  # it hangs: the connection stands, nothing comes
        try:
            page.until("document.body.dataset.connection === 'stale'")
            shown(page, "banner", "Stale: no new tick received. Displayed data is")
        finally:
            os.kill(serving.process.pid, signal.SIGCONT)
        page.until(f"{LIVE} && document.getElementById('banner').hidden")
        serving.end()
        page.until("document.body.dataset.connection === 'disconnected'")
        shown(page, "banner", "Disconnected: the service is unreachable. Displayed data is")
        config = tmp_path / "shardpulse.toml"
        config.write_text(config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{serving.port}"))
        command = [*serving.process.args]  # type: ignore[misc]
        with started(command, stdout=subprocess.DEVNULL):
            page.until(LIVE, 20)
            assert page.evaluate("document.getElementById('banner').hidden")


def test_hosts_that_go_silent_are_late_and_down_not_idle(
    data: Data, shards: Shards, tmp_path: Path, page: Page
) -> None:
    with Serving(tmp_path, shards.addresses, "[snapshot]\ndown_after_seconds = 4.0") as serving:
        opened(page, serving)
        data.machines.remove(data.machines[0])
        page.evaluate("document.getElementById('order').value = 'name'; document.getElementById('heat').focus()")
        page.press("Home", "ArrowRight")
        page.until(f"{OPTION}.startsWith('busy, CPU late, late')")
        shown(page, "summary", "1 down", 15)
        page.until(f"{OPTION}.startsWith('busy, CPU down, down')")
        page.press("Enter")  # what it did before it fell silent can still be seen
        page.until("document.querySelector('.plot canvas') !== null")
        shown(page, "host", "all counted")
        shown(page, "decisions", "busy is down")
        assert page.problems == []


def test_a_vm_that_migrates_is_marked_on_both_hosts(
    cluster: Cluster, shards: Shards, tmp_path: Path, page: Page
) -> None:
    incoming = Guest("web", 0.0, 2, {"incoming": "tcp", "started": "30"})
    machines = [Machine(cluster, "from", [Guest("web", 2.0, 2)]), Machine(cluster, "to", [incoming])]
    marks = "[...document.querySelectorAll('#host tbody .badge:not([hidden])')].map(badge => badge.textContent).join()"
    with Data(cluster, machines), Serving(tmp_path, shards.addresses) as serving:
        page.open(serving.url)
        shown(page, "summary", "2 hosts")
        page.evaluate(f"location.hash = 'host={machines[0].id}'")
        page.until(f"{marks} === 'migrating'")
        page.evaluate(f"location.hash = 'host={machines[1].id}'")
        page.until(f"{marks} === 'migrating, load is elsewhere'")
        shown(page, "host", "nothing")  # it does not run there
        assert page.problems == []


def test_when_nothing_comes_from_any_host_it_says_so(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        opened(page, serving)
        data.machines.clear()  # the service goes on telling ticks
        page.until("document.body.dataset.connection === 'blind'")
        shown(page, "banner", "no host is visible")
        shown(page, "summary", "unknown hot")  # nobody could be judged: not 0
        shown(page, "decisions", "Hot hosts: unknown")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert page.evaluate("document.getElementById('banner').getBoundingClientRect().bottom <= innerHeight")
        assert page.evaluate("document.getElementById('banner').getBoundingClientRect().top >= 0")  # it stays in sight
        assert page.problems == []


def test_the_focus_stays_on_its_host_while_the_order_changes(
    data: Data, shards: Shards, tmp_path: Path, page: Page
) -> None:
    position = "Number(document.getElementById('heat-focus').getAttribute('aria-posinset'))"
    with Serving(tmp_path, shards.addresses) as serving:
        opened(page, serving)
        page.evaluate(
            "(order => { order.value = 'heat'; order.dispatchEvent(new Event('change')); })"
            "(document.getElementById('order')); document.getElementById('heat').focus()"
        )
        page.press("Home")
        page.until(f"{OPTION}.startsWith('busy,') && {position} === 1")
        busy, calm = data.machines[:2]
        busy.busy, calm.busy = 0.3, 0.95
        page.until(f"{position} === 2", 20)
        assert page.evaluate(OPTION).startswith("busy,")


def test_what_is_drawn_and_written_can_be_read(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        page.open(serving.url)
        least = page.evaluate(CONTRASTS)
        assert len(least) == 202
        assert min(least) >= 4.5
        text = "import('/scripts/text.js').then(text => text.{})".format
        hostile = text("printable('a\\u061cb\\u202ec\\ud800d\\u001b[2J')")
        assert page.evaluate(hostile) == "a\ufffdb\ufffdc\ufffdd\ufffd[2J"
        assert page.evaluate(text("quantity(0.5, 'cores')")) == "0.50 cores"
        assert page.evaluate(text("quantity(null, 'cores')")) == "missing"
        assert page.evaluate(text("quantity(NaN, 'bytes/s')")) == "missing"


def test_a_list_that_is_cut_says_so(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        page.open(serving.url)
        page.until(LIVE)
        text = page.evaluate(SEVENTY_HOT)
        assert text.count("host-") == 50
        assert "70 hot hosts (the first 50)" in text


def test_a_figure_of_long_ago_is_no_figure_of_now(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        page.open(serving.url)
        assert page.evaluate(OLD_ROW) == ["timeout", "1.00 GiB", "12 s before"]


def test_a_process_is_shown_with_its_pid(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        page.open(serving.url)
        assert page.evaluate(PROCESS_ROW) == "process 4711"
        assert page.evaluate(VM_ROWS) == [
            ["web stopped", "vm proxmox 302", "2.00", "4", "0.50"],
            ["x ", "vm proxmox 302", "1.00", "missing", "missing"],
        ]


def test_dark_and_light_by_preference_and_by_switch(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with Serving(tmp_path, shards.addresses) as serving:
        page.media("dark")
        page.open(serving.url)
        dark = page.evaluate(ground)
        page.media("light")
        light = page.evaluate(ground)
        assert dark != light
        page.evaluate("document.getElementById('theme').click()")
        assert page.evaluate(ground) == dark
        page.open(serving.url)
        assert page.evaluate(ground) == dark  # the choice is kept
        page.evaluate("localStorage.clear()")


def test_the_token_is_asked_for_and_kept_in_memory_only(data: Data, shards: Shards, tmp_path: Path, page: Page) -> None:
    secret = tmp_path / "token"
    secret.write_text("a-token-of-more-than-16-letters\n")
    secret.chmod(0o600)
    enter = "document.getElementById('token').value = '{}'; document.querySelector('#token-form button').click()"
    with Serving(tmp_path, shards.addresses, f"token_file = '{secret}'") as serving:
        page.open(serving.url)
        page.until("document.getElementById('ask-token').open")
        page.evaluate(enter.format("something wrong"))
        page.until("document.getElementById('token-wrong').textContent.includes('not accepted')")
        page.evaluate(enter.format("a-token-of-more-than-16-letters"))
        page.until(f"{LIVE} && !document.getElementById('ask-token').open", 20)
        stored = page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        )
        assert "letters" not in stored


@pytest.mark.parametrize("path", sorted(path for path in PAGE.rglob("*") if path.suffix in (".html", ".js", ".css")))
def test_no_file_names_another_host(path: Path) -> None:
    text = path.read_text()
    if path.parent.name == "vendor":  # its authors cite pages in comments
        text = re.sub(r"/\*.*?\*/|(?<![:'\"])//[^\n]*", "", text, flags=re.DOTALL)
    assert re.findall(r"(?:https?:|wss?:|['\"(=]\s*)//[^\s'\")]+", text) == []


def test_what_is_vendored_is_as_its_authors_published_it() -> None:
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in (PAGE / "vendor").iterdir()}
    assert digests == {  # uplot 1.6.32
        "uPlot.LICENSE": "8f989229699b4fe2",
        "uPlot.esm.js": "5dd9b3281aa64b46",
        "uPlot.min.css": "df630c6a8d6f8eea",
    }


def test_text_never_becomes_markup() -> None:
    for path in PAGE.glob("scripts/*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", path.read_text()
        ), path
    assert "unsafe" not in (PAGE.parent / "service" / "page.py").read_text()
