"""Which host has a name."""

from __future__ import annotations

from acquisition.model.identity import host_id
from acquisition.model.metric import Metric
from acquisition.snapshot.values.names import HostNames, NamesCache, names_of
from acquisition.wire import table
from acquisition.wire.table import Entity, Table

WEB, EVIL = host_id("web-0"), host_id("evil")
METRICS = (Metric("cpu_ratio", "cores", "counter", 0.0, 1.0, ""),)


def test_a_name_belongs_to_the_id_that_is_made_of_it() -> None:
    assert names_of({EVIL: "web-0", WEB: "web-0"}) == {EVIL: f"{EVIL:016x}", WEB: "web-0"}
    assert names_of({EVIL: "web-0", host_id("calm"): "calm"})[EVIL] == f"{EVIL:016x}"
    assert names_of({EVIL: "\ud800", WEB: "web-0"})[EVIL] == f"{EVIL:016x}"


def test_first_host_keeps_name_until_forgotten_without_named_ids() -> None:
    names = HostNames()
    assert [names.name(host, "web-0") for host in (1, 2, 1)] == ["web-0", f"{2:016x}", "web-0"]
    names.forget({2})
    assert [names.name(host, "web-0") for host in (2, 1)] == ["web-0", f"{1:016x}"]


def read(cache: NamesCache, host: int, said: str) -> None:
    rows = (Entity(host + 1, "host", said, "1", said), Entity(host + 2, "process", "p", "1", "web-0"))
    assert cache.put(host, 1, table.encode(Table(said, "host", 1.0, "test", True, METRICS, rows)), 0.0) is None


def called(cache: NamesCache) -> dict[int, list[str]]:
    found = {host: cache.get(host, 1) for host in (1, 2, WEB, EVIL)}
    return {host: [each.table.host, *(row.name for row in each.table.entities)] for host, each in found.items() if each}


def test_what_was_read_before_is_called_anew() -> None:
    cache = NamesCache()
    read(cache, 1, "web-0")
    read(cache, 2, "web-0")
    assert called(cache) == {1: ["web-0"] * 3, 2: [f"{2:016x}", f"{2:016x}", "web-0"]}
    cache.forget({(2, 1)})
    assert called(cache) == {2: ["web-0"] * 3}
    read(cache, WEB, "web-0")
    assert called(cache) == {2: [f"{2:016x}", f"{2:016x}", "web-0"], WEB: ["web-0"] * 3}
