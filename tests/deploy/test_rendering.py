"""render.yml: what every host would get, without a host."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support import ROOT, rendering


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated inventory with three watched machines, rendered."""
    place = tmp_path_factory.mktemp("rendering")
    assert rendering.render(place, 3) > 0
    return place


def test_each_host_gets_its_files_and_no_other(rendered: Path) -> None:
    out = rendered / "rendered-3"
    assert {place.name for place in out.iterdir()} == {f"pulse-{n}" for n in range(1, 7)} | {
        f"host-{n:04}" for n in range(1, 4)
    }
    assert not list((out / "host-0001").rglob("filter*"))
    assert len(list((out / "pulse-1").rglob("redis.conf"))) == 8
    probe = tomllib.loads((out / "host-0002/etc/shardpulse/probe.toml").read_text())
    assert probe["host"]["name"] == "host-0002"
    assert len(probe["shards"]["addresses"]) == 24  # masters: a probe connects to its owner
    unit = "etc/systemd/system/shardpulse-probe.service"
    assert (out / "host-0003" / unit).read_text() == (ROOT / "deploy/systemd/shardpulse-probe.service").read_text()


def test_no_secret_is_rendered(rendered: Path) -> None:
    text = "".join(path.read_text() for path in (rendered / "rendered-3").rglob("*") if path.is_file())
    secrets = [path for path in (rendered / "secrets/passwords").iterdir() if path.is_file()]
    assert len(secrets) > 5
    for secret in secrets:
        assert secret.read_text().strip() not in text
    assert "PRIVATE KEY" not in text


def test_the_loop_beside_it_writes_the_same(rendered: Path) -> None:
    rendering.bare(rendered / "bare", 2)
    theirs = tomllib.loads((rendered / "rendered-3/host-0001/etc/shardpulse/probe.toml").read_text())
    ours = tomllib.loads((rendered / "bare/host-0001/probe.toml").read_text())
    assert ours["host"] == theirs["host"]
    assert set(ours["shards"]) == set(theirs["shards"])
    settings = "etc/sysctl.d/60-shardpulse.conf"
    assert (rendered / "bare/host-0001/60-shardpulse.conf").read_text() == (
        rendered / "rendered-3/host-0001" / settings
    ).read_text()


def test_each_host_is_rendered_with_variables_of_its_own(rendered: Path, tmp_path: Path) -> None:
    first = {"probe_configuration": "# {{ my_word }}", "my_word": "one"}
    second = {"common_huge_pages": "", "my_word": "two"}
    rendering.render_inventory(inventory(tmp_path, first, second), rendered, tmp_path / "out")
    probes = {host: (tmp_path / "out" / host / "etc/shardpulse/probe.toml").read_text() for host in ("first", "second")}
    assert "# one" in probes["first"]
    assert "#" not in probes["second"].partition("\n")[2]
    assert tomllib.loads(probes["second"])["host"]["name"] == "second"
    pages = "etc/tmpfiles.d/shardpulse.conf"
    assert (tmp_path / "out/first" / pages).exists()
    assert not (tmp_path / "out/second" / pages).exists()
    units = [(tmp_path / "out" / host / "etc/shardpulse/filter.toml").exists() for host in ("first", "second")]
    assert units == [True, False]


def test_what_cannot_be_rendered_is_told_with_its_host(rendered: Path, tmp_path: Path) -> None:
    wrong = {"probe_configuration": "{{ nowhere }}"}
    with pytest.raises(RuntimeError, match=r"second: .*nowhere"):
        rendering.render_inventory(inventory(tmp_path, {}, wrong), rendered, tmp_path / "out")


def test_git_passes_over_secrets_and_those_that_it_has_are_refused(rendered: Path, tmp_path: Path) -> None:
    git = ["git", "-C", str(rendered)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    try:
        listed = subprocess.check_output([*git, "status", "--porcelain", "-uall"], text=True)
        assert "rendered-3/" in listed
        assert "secrets" not in listed
        subprocess.run([*git, "add", "--force", "secrets/passwords/probe"], check=True)
        with pytest.raises(RuntimeError, match=r"git has passwords/probe\."):
            rendering.render_inventory(inventory(tmp_path, {}, {}), rendered, tmp_path / "out")
    finally:
        shutil.rmtree(rendered / ".git")


def test_some_hosts_are_rendered_with_the_controller_only(rendered: Path, tmp_path: Path) -> None:
    hosts = inventory(tmp_path, {}, {})
    with pytest.raises(RuntimeError, match="--limit leaves out the controller"):
        rendering.render_inventory(hosts, rendered, tmp_path / "none", limit="second")
    rendering.render_inventory(hosts, rendered, tmp_path / "out", limit="second,localhost")
    assert [place.name for place in (tmp_path / "out").iterdir()] == ["second"]


def inventory(place: Path, first: dict[str, str], second: dict[str, str]) -> Path:
    """Two hosts with probes; the first is a shard, whose certificate is there, and a filter."""
    hosts = {"first": {"ansible_host": "198.51.100.1"} | first, "second": second}
    groups = {
        "shards": {"hosts": {"first": {}}},
        "filters": {"hosts": {"first": {}}},
        "probes": {"hosts": {"first": {}, "second": {}}},
    }
    path = place / "hosts.json"
    path.write_text(json.dumps({"all": {"hosts": hosts, "children": groups}}))
    return path
