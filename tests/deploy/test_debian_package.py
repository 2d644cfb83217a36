"""The Debian package of the probe: on a host with systemd and without pip it installs, runs, and leaves nothing."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition import __version__
from tests.support import ROOT
from tests.support.built import built, commit_of_the_checkout
from tests.support.hosts import Host
from tests.support.hosts.demanded import hosts_for_a_test
from tests.support.waiting import eventually

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "dpkg-deb")]
_STATE = "systemctl show --property=ActiveState --value shardpulse-probe"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("package")
    (made,) = built(commit_of_the_checkout(place / "checkout"), "debian", out=place / "out").glob("*.deb")
    return made


def test_two_packages_of_one_commit_are_equal(package: Path, tmp_path: Path) -> None:
    other = commit_of_the_checkout(tmp_path / "a directory of another length")
    (made,) = built(other, "debian", out=tmp_path / "out").glob("*.deb")
    assert made.name == package.name
    assert made.read_bytes() == package.read_bytes()
    for name in ("bill.cdx.json", "SHA256SUMS"):
        assert (made.parent / name).read_bytes() == (package.parent / name).read_bytes()


def test_sums_and_bill_are_of_the_package(package: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=package.parent, check=True)
    assert package.name in (package.parent / "SHA256SUMS").read_text()
    bill = json.loads((package.parent / "bill.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "shardpulse"
    assert {each["name"] for each in bill["components"]} == {"hiredis"}  # once for each Python that the hosts may have


def test_a_commit_is_older_than_its_release(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = package.name.split("_")[1]
    assert re.fullmatch(rf"{re.escape(__version__)}~git20260102\.030405\.[0-9a-f]{{7}}", version)
    subprocess.run(["dpkg", "--compare-versions", version, "lt", __version__], check=True)
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    debian, source = (importlib.import_module(f"building.{name}") for name in ("debian", "source"))
    ours = Path(f"shardpulse-{__version__}-cp311-abi3-linux_x86_64.whl")
    tagged = source.Source(tmp_path, "0123456789", 1, frozenset({f"v{__version__}"}))
    assert debian._version(ours, tagged) == __version__


@pytest.fixture(scope="module")
def host(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with hosts_for_a_test(tmp_path_factory.mktemp("hosts"), ["one"]) as running:
        running["one"].write("/root/probe.deb", package.read_bytes())
        yield running["one"]


def test_lintian_finds_no_error(package: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("THE PACKAGE IS NOT TESTED WITH LINTIAN HERE: apt install lintian")
    done = subprocess.run(["lintian", "--allow-root", str(package)], capture_output=True, text=True)
    assert not [line for line in done.stdout.splitlines() if line.startswith("E:")], done.stdout


def test_control_and_copyright_name_authors_and_licence(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path)], check=True)
    field = ["dpkg-deb", "--field", str(package), "Maintainer"]
    maintainer = subprocess.run(field, capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"the shardpulse authors <\w+@[\w.]+\.invalid>\n", maintainer)
    copyright_ = (tmp_path / "usr/share/doc/shardpulse-probe/copyright").read_text()
    assert "Copyright 2026 the shardpulse authors" in copyright_
    assert "/usr/share/common-licenses/Apache-2.0" in copyright_
    assert "hiredis" in copyright_.partition("packages of PyPI")[2]
    recorded = (tmp_path / "usr/lib/shardpulse/acquisition/commit.py").read_text()
    assert re.search(r'^RECORDED = "[0-9a-f]{12}"$', recorded, re.MULTILINE)


def test_it_installs_runs_and_leaves_nothing(host: Host) -> None:
    assert "/etc/shardpulse/probe.toml says what to fill in" in host.ssh("dpkg --install /root/probe.deb")
    assert host.ssh("getent passwd shardpulse").endswith(":/nonexistent:/usr/sbin/nologin\n")
    assert host.try_ssh("python3 -m pip --version").returncode == 1
    host.ssh("systemctl start shardpulse-probe")  # which has to be told first where the shards are
    assert host.ssh(_STATE) == "inactive\n"
    said = host.try_ssh("systemctl status --no-pager shardpulse-probe").stdout
    assert "unmet condition check (ConditionPathExists=/etc/shardpulse/probe.password)" in said
    assert "Docs: file:/etc/shardpulse/probe.toml" in said
    assert '"name":"one"' in host.ssh("shardpulse probe --dry-run --ticks 1")
    assert host.ssh("shardpulse config --file /etc/shardpulse/probe.toml").startswith("# shardpulse.toml")
    assert host.try_ssh("shardpulse serve").returncode == 2

    host.write("/etc/shardpulse/probe.password", "secret\n", mode="600")
    host.ssh("systemctl start shardpulse-probe")
    eventually(lambda: "frames are kept" in host.ssh("systemctl status shardpulse-probe"), 60)
    host.ssh("echo '[host]\nname = \"two\"' >> /etc/shardpulse/probe.toml; systemctl reload shardpulse-probe")
    assert host.ssh(_STATE) == "active\n"
    process = host.ssh("systemctl show --property=MainPID --value shardpulse-probe")

    host.ssh("dpkg --install /root/probe.deb")  # again, as an upgrade is: what was configured stays, and it runs on
    eventually(lambda: host.ssh(_STATE) == "active\n", 60)
    assert host.ssh("systemctl show --property=MainPID --value shardpulse-probe") != process
    assert "two" in host.ssh("cat /etc/shardpulse/probe.toml")

    host.ssh("dpkg --remove shardpulse-probe")
    assert "two" in host.ssh("cat /etc/shardpulse/probe.toml")
    host.ssh("dpkg --purge shardpulse-probe")
    left = host.ssh("find / -xdev -path '*shardpulse*' -not -path '/proc/*' -not -path '/var/log/*'").split()
    assert left == [], left
