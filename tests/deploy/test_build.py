"""Packages: equal whoever builds them, whole, and a host of a probe gets hiredis and nothing else."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from acquisition import __version__
from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys
from tests.support import ROOT
from tests.support.built import built, commit_of_the_checkout
from tests.support.processes import started
from tests.support.tls_cluster import tls_cluster
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("first")
    return built(commit_of_the_checkout(place / "checkout"), "wheelhouse", "--extra", "probe", out=place / "wheels")


def sums(directory: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


def test_two_builds_of_one_commit_are_equal(wheelhouse: Path, tmp_path: Path) -> None:
    other = commit_of_the_checkout(tmp_path / "a directory of another length")
    (other / "acquisition" / "errors.py").chmod(0o600)  # nor do they depend on anybody's umask
    assert sums(built(other, "wheelhouse", "--extra", "probe", out=tmp_path / "out")) == sums(wheelhouse)


def test_the_wheel_is_for_every_python_and_older_systems(wheelhouse: Path) -> None:
    (wheel,) = wheelhouse.glob("shardpulse-*.whl")
    assert re.fullmatch(r"shardpulse-[\d.]+-cp311-abi3-manylinux[\w.]*_(x86_64|aarch64)\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        steps = re.findall(r'native_step\("([\w.]+)"\)', (ROOT / "setup.py").read_text())
        assert {f"{step.replace('.', '/')}.abi3.so" for step in steps} <= {*names}
        for name in names:
            assert f"{Path.home()}/".encode() not in content.read(name), f"{name} names a directory of this machine"


def test_the_wheel_has_the_licences(wheelhouse: Path) -> None:
    (wheel,) = wheelhouse.glob("shardpulse-*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        for licence in ("LICENSE", "NOTICE", "filters/page/vendor/uPlot.LICENSE"):
            (packed,) = [name for name in names if name.endswith(f".dist-info/licenses/{licence}")]
            assert content.read(packed) == (ROOT / licence).read_bytes()
        assert "filters/page/vendor/uPlot.LICENSE" in names
    bill = json.loads((wheelhouse / "bill.cdx.json").read_text())
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"name": "Apache-2.0"}}]


def test_sums_and_bill_are_of_what_lies_there(wheelhouse: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=wheelhouse, check=True)
    bill = json.loads((wheelhouse / "bill.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "shardpulse")
    assert [each["name"] for each in bill["components"]] == ["hiredis"]
    for each in [bill["metadata"]["component"], *bill["components"]]:
        assert each["hashes"][0]["content"] == hashlib.sha256((wheelhouse / each["bom-ref"]).read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def probe_only(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs of an environment that pip made from the wheelhouse, without an index."""
    home = tmp_path_factory.mktemp("host") / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(home / "bin" / "pip"), "install", "--quiet", "--no-index", "--require-hashes"]
    subprocess.run(
        [*pip, "--find-links", str(wheelhouse), "-r", str(wheelhouse / "requirements.txt")], check=True, env=outside()
    )
    return home / "bin"


def outside() -> dict[str, str]:
    """The environment of somebody who has no checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}


def run(programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(programs / "shardpulse"), *arguments], capture_output=True, text=True, env=outside(), cwd=programs
    )


def test_the_host_of_a_probe_has_hiredis_and_nothing_else(probe_only: Path) -> None:
    listed = subprocess.run(
        [str(probe_only / "pip"), "list", "--format=json"], capture_output=True, check=True, env=outside()
    ).stdout
    assert {each["name"] for each in json.loads(listed)} - {"pip", "setuptools"} == {"hiredis", "shardpulse"}
    told = run(probe_only, "probe", "--help")
    assert (told.returncode, told.stdout.startswith("usage: shardpulse probe")) == (0, True)


def test_the_version_names_the_commit_that_was_built(probe_only: Path, wheelhouse: Path) -> None:
    bill = json.loads((wheelhouse / "bill.cdx.json").read_text())
    (commit,) = [each["value"] for each in bill["metadata"]["properties"] if each["name"] == "shardpulse:commit"]
    assert run(probe_only, "--version").stdout == f"shardpulse {__version__} ({commit[:12]})\n"


@pytest.mark.parametrize(
    ("command", "extra"),
    [("filter", "filter"), ("serve", "serve"), ("archive", "archive"), ("shards", "shards"), ("status", "query")],
)
def test_what_is_not_installed_says_how_to_install_it(probe_only: Path, command: str, extra: str) -> None:
    done = run(probe_only, command)
    assert done.returncode == 69
    hint = (
        rf"pip install --no-index --find-links WHEELS 'shardpulse\[{extra}\]', with WHEELS of deploy/build wheelhouse"
    )
    assert re.fullmatch(rf"shardpulse: error: {command} requires the package \w+: {hint}\n", done.stderr)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("[probe]\nintervall_seconds = 1", 78, "line 2: key probe.intervall_seconds: unknown key; did you mean"),
        ("[probe]\ninterval_seconds = '1'", 78, "line 2: key probe.interval_seconds: expected `float`, got `str`"),
        ("[probe.host]\nmetrics = ['cpu']", 78, "key probe.host.metrics: unknown metric 'cpu'"),
        ("[shards]\npassword_file = '/nowhere'\naddresses = ['h:1']", 66, "/nowhere"),
    ],
)
def test_errors_are_told_in_words(probe_only: Path, tmp_path: Path, text: str, code: int, words: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    done = run(probe_only, "probe", "--config", str(tmp_path / "bad.toml"))
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_its_samples_arrive_and_it_reads_its_configuration_again(
    probe_only: Path, tmp_path: Path, cluster: Cluster, shards: Shards
) -> None:
    config, log = tmp_path / "probe.toml", tmp_path / "log"

    def configure(more: str) -> None:
        addresses = ", ".join(f'"{address}"' for address in shards.addresses)
        text = f'[host]\nname = "lean"\n[shards]\naddresses = [{addresses}]\n[probe]\nring_path = "{tmp_path}/ring"\n'
        config.write_text(f"{text}interval_seconds = 0.2\n{more}")

    def arrived() -> int:
        asked = [(keys.raw(tag), ("XLEN", keys.raw(tag))) for tag in keys.tags(keys.DEFAULT_PARTITIONS)]
        return sum(map(int, cluster.gather(asked)))

    configure("")
    command = [str(probe_only / "shardpulse"), "probe", "--config", str(config)]
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        probe = stack.enter_context(started(command, env=outside(), stdout=output, stderr=output, cwd=tmp_path))
        eventually(lambda: arrived() > 5, 60, says=log.read_text)
        configure("no_such_key = 1\n")
        probe.send_signal(signal.SIGHUP)
        eventually(lambda: "key probe.no_such_key: unknown key" in log.read_text(), 60, says=log.read_text)
        eventually(lambda: "configuration unchanged" in log.read_text(), 60, says=log.read_text)
        configure("[probe.processes]\nenabled = false\n")
        said = len(log.read_text())
        probe.send_signal(signal.SIGHUP)
        eventually(lambda: "configuration" in log.read_text()[said:], 60, says=log.read_text)
        before = arrived()
        eventually(lambda: arrived() > before, 60, says=log.read_text)
        probe.send_signal(signal.SIGTERM)
        assert probe.wait(60) == 0, log.read_text()


@pytest.mark.needs("redis-server", "openssl")
def test_it_speaks_tls_and_says_what_is_wrong_with_it(probe_only: Path, tmp_path: Path) -> None:
    with tls_cluster(tmp_path / "shards") as secured, contextlib.ExitStack() as stack:
        config, log = tmp_path / "probe.toml", tmp_path / "log"
        text = secured.configure("probe", f'[probe]\ninterval_seconds = 0.5\nring_path = "{tmp_path}/ring"\n')
        config.write_text(text)
        reader = stack.enter_context(contextlib.closing(Cluster(secured.addresses, secured.credentials("reader"))))
        command = [str(probe_only / "shardpulse"), "probe", "--config", str(config)]
        output = stack.enter_context(log.open("wb"))
        probe = stack.enter_context(started(command, env=outside(), stdout=output, stderr=output, cwd=tmp_path))
        asked = [(keys.raw(tag), ("XLEN", keys.raw(tag))) for tag in keys.tags(keys.DEFAULT_PARTITIONS)]
        eventually(lambda: sum(map(int, reader.gather(asked))) > 3, 60, says=log.read_text)
        probe.send_signal(signal.SIGTERM)
        assert probe.wait(60) == 0, log.read_text()
        config.write_text(text.replace(str(secured.ca), str(config)))
        done = run(probe_only, "probe", "--config", str(config), "--wait", "1")
        assert (done.returncode, str(config) in done.stderr, done.stderr.count("\n")) == (78, True, 1), done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--help"], 0, "exit codes:"),
        (["wheel"], 2, "--out"),
        (["wheel", "--out", "OUT", "--commit", "no-such-commit"], 66, "there is no commit no-such-commit"),
        (["wheel", "--out", str(ROOT / "docs")], 2, "holds something else"),
    ],
)
def test_the_command_teaches(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    command = [str(ROOT / "deploy/build"), *(str(tmp_path) if each == "OUT" else each for each in arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done.stderr
