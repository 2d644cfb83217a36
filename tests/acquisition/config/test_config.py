"""The configuration: what is accepted, what is refused with which words, and that the printed form reads back."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.config import endpoints, metric_registry, schema
from acquisition.config import loader as config
from acquisition.config import text as config_text
from acquisition.config.probe import Probe, ProcessesModule
from acquisition.config.settings import Filter, Settings, Shards
from acquisition.errors import ConfigError, NoInputError
from acquisition.link.local_shards import LocalShards
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials, ours


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv(config.ENVIRONMENT, raising=False)


def test_defaults_hold_without_a_file(monkeypatch):
    monkeypatch.setattr(config, "SYSTEM_PATH", "/nonexistent/shardpulse.toml")
    assert config.load() == Settings()


def test_the_file_of_the_environment_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.toml"
    path.write_text("[filter]\ntau_seconds = 7\n")
    monkeypatch.setenv(config.ENVIRONMENT, str(path))
    assert config.load().filter.tau_seconds == 7.0


def test_a_named_file_wins_over_the_environment(tmp_path, monkeypatch):
    path = tmp_path / "a.toml"
    path.write_text("[probe]\ninterval_seconds = 2\n")
    monkeypatch.setenv(config.ENVIRONMENT, "/nonexistent")
    assert config.load(str(path)).probe.interval_seconds == 2.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[probe]\nintervall_seconds = 1", "FILE line 2: key probe.intervall_seconds: unknown key; did you mean"),
        ("[prob]\n", "FILE line 1: key prob: unknown key; did you mean probe?"),
        ("probe.host.sorce = 'x'", "FILE line 1: key probe.host.sorce: unknown key; did you mean source?"),
        ("[probe]\nhost = { sorce = 'x' }", "FILE line 2: key probe.host.sorce: unknown key; did you mean source?"),
        ("[filter]\n\ntau_seconds = -1", "FILE line 3: key filter.tau_seconds: expected `float` > 0.0"),
        ("[filter]\ntau_seconds = nan", "key filter.tau_seconds"),
        ("[filter]\ntau_seconds = inf", "key filter.tau_seconds"),
        ("[filter]\nretention_seconds = inf", "key filter.retention_seconds: inf is not a finite number"),
        ("[filter]\ntau_seconds = true", "key filter.tau_seconds: expected `float`, got `bool`"),
        ("[filter]\nkernels = []", "key filter.kernels"),
        ("[filter.tau]\ncpu_ratio = 0", "key filter.tau: expected `float` > 0.0"),
        ("[probe]\ninterval_seconds = '1'", "key probe.interval_seconds: expected `float`, got `str`"),
        ("[probe]\ninterval_seconds = 0", "key probe.interval_seconds: expected `float` >= 0.01"),
        (
            "[probe.host]\nsource = 'pidstat'",
            "key probe.host.source: invalid enum value 'pidstat'; expected one of auto, procfs, vmstat",
        ),
        ("[probe.processes]\ncommands = ['[']", "key probe.processes.commands: invalid regular expression '['"),
        ("[probe.processes]\npids = [0]", "key probe.processes.pids: invalid process id 0"),
        (
            "[filter.inputs]\nplateau_seconds = 31",
            "key filter.inputs.plateau_seconds: 31 exceeds the window of 30",
        ),
        (
            "[filter.inputs]\ncounted_least = 9\nwindow_least = 8",
            "filter.inputs.counted_least: 9 exceeds the 8 samples of the window",
        ),
        ("[shards]\naddresses = ['host']", "key shards.addresses: invalid address 'host': expected HOST:PORT"),
        ("[shards]\nbase_port = 60000", "key shards.base_port"),
        ("[checks.range.limits]\nx = [2, 1]", "key checks.range.limits.x: lower limit 2.0 exceeds upper limit 1.0"),
        ("[checks.range.limits]\nx = [nan, 1]", "key checks.range.limits.x: nan is not a finite number"),
        ("[checks.range.limits]\nx = [1]", "key checks.range.limits: expected `array` of length 2, got 1"),
        ("probe = 3", "FILE line 1: key probe: expected `object`, got `int`"),
        ("a = 1\na = 2", "FILE: Cannot overwrite a value (at"),
        ("a =", "FILE: Invalid value"),
        ("a = " + "[" * 5000, "FILE: "),
    ],
)
def test_what_is_wrong_is_named(text, words):
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "FILE")
    assert words in str(caught.value)
    assert caught.value.exit_code == 78


def test_infinite_limits_of_the_range_check_are_legal():
    settings = config.parse("[checks.range.limits]\nx = [0, inf]")
    assert settings.checks.range.limits == {"x": (0.0, float("inf"))}


def test_an_empty_file_is_refused_and_a_comment_means_the_defaults(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(" \n")
    with pytest.raises(NoInputError, match="is empty"):
        config.load(str(path))
    path.write_text("# nothing\n")
    assert config.load(str(path)) == Settings()


def test_a_file_that_is_missing_or_no_file_or_no_text(tmp_path):
    with pytest.raises(NoInputError, match="No such file"):
        config.load(str(tmp_path / "missing"))
    with pytest.raises(NoInputError, match="Is a directory"):
        config.load(str(tmp_path))
    path = tmp_path / "binary"
    path.write_bytes(b"# fine\n\xff\xfe\x00")
    with pytest.raises(ConfigError, match="line 2: not UTF-8"):
        config.load(str(path))


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        Settings().filter.tau_seconds = 1.0


def test_the_printed_form_names_every_key_and_reads_back():
    settings = Settings(
        probe=Probe(processes=ProcessesModule(commands=['a"b\\\\', "é\t\x7f"], pids=[1, 2])),
        filter=Filter(tau={"cpu_ratio": 2.0, 'odd "key"': 1e-9}),
    )
    text = config_text.render(settings)
    assert config.parse(text) == settings
    for table in schema.fields(Settings).values():
        for field in schema.fields(table.base):
            assert field in text


@given(st.text(max_size=200))
def test_any_text_is_settings_or_a_config_error(text):
    with contextlib.suppress(ConfigError):
        assert isinstance(config.parse(text), Settings)


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=40), st.floats(1e-9, 86400))
def test_any_string_and_number_survives_printing(name, tau):
    settings = Settings(filter=Filter(tau={name: tau}), shards=Shards(directory=name))
    assert config.parse(config_text.render(settings)) == settings


KNOWN = {"host": ["cpu_user_ratio"], "processes": ["cpu_ratio"], "vms": []}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[probe.host]\nmetrics = ['cpu_usr_ratio']",
            "key probe.host.metrics: unknown metric 'cpu_usr_ratio'; did you",
        ),
        ("[filter.tau]\ncpu_rato = 1", "key filter.tau: unknown metric 'cpu_rato'; did you mean cpu_ratio?"),
        ("[checks.range.limits]\nx = [0, 1]", "key checks.range.limits: unknown metric 'x'"),
        ("[probe.host]\nmetrics = ['cpu_ratio']", "key probe.host.metrics: unknown metric 'cpu_ratio'"),
    ],
)
def test_unknown_metrics_are_named(text, words):
    with pytest.raises(ConfigError) as caught:
        config.check_metrics(config.parse(text), KNOWN, "FILE")
    assert words in str(caught.value)


def test_known_metrics_pass():
    settings = config.parse("[filter.tau]\ncpu_ratio = 1\n[probe.host]\nmetrics = ['cpu_user_ratio']")
    config.check_metrics(settings, KNOWN)


def test_installed_metrics_are_found_through_entry_points(tmp_path):
    assert "cpu_ratio" in metric_registry.registered()["processes"]
    path = tmp_path / "a.toml"
    path.write_text("[filter.tau]\nno_such_metric = 1\n")
    with pytest.raises(ConfigError, match="unknown metric 'no_such_metric'"):
        metric_registry.load_checked(str(path))


def test_seeds_are_those_of_the_settings_or_this_machines_shards(tmp_path):
    assert endpoints.seeds(Shards(addresses=["[::1]:7000"])) == [Address("::1", 7000)]
    assert endpoints.seeds(Shards(directory=str(tmp_path))) == LocalShards(str(tmp_path))


def test_password_file(tmp_path):
    path = tmp_path / "password"
    settings = Shards(username="probe", password_file=str(path))
    with pytest.raises(NoInputError, match="cannot read"):
        endpoints.credentials(settings)
    path.write_text("secret\nsecond line\n")
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        endpoints.credentials(settings)
    path.chmod(0o600)
    assert endpoints.credentials(settings) == Credentials("probe", "secret", ours(), password_file=str(path))
    named = replace(settings, owner="root")
    assert endpoints.credentials(named).owners == (0,)
    with pytest.raises(ConfigError, match=r"shards.owner: no user 'nobody-here'"):
        endpoints.credentials(replace(settings, owner="nobody-here"))
    path.write_text("\n")
    with pytest.raises(NoInputError, match="no password in"):
        endpoints.credentials(settings)
    assert endpoints.credentials(Shards()).password == ""


def test_no_secret_in_the_printed_form(tmp_path):
    path = tmp_path / "file"
    path.write_text("kept-from-view\n")
    path.chmod(0o600)
    assert "kept-from-view" not in config_text.render(Settings(shards=Shards(password_file=str(path))))
