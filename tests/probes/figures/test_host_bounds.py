"""No impossible tick and no impossible byte is VALID, and what is right beside it stays; in C and in Python."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acquisition.model.codes import FIRST, RATE, RESET, VALID
from probes.checks import build_pipeline
from probes.checks.rate import UNKNOWN_LINK, growth
from probes.figures.host_figures import shares
from probes.metrics import HOST
from probes.sampling.host_facts import HostFacts
from probes.sources import procfs_host
from probes.sources.procfs_host import HostSource
from tests.support import FIXTURES
from tests.support.untested import require_native

CAPTURES = FIXTURES / "captures"
SHARES = tuple(f"cpu_{name}_ratio" for name in ("user", "system", "idle", "iowait", "steal", "guest"))
RECEIVED, SENT = "network_receive_bytes_per_second", "network_transmit_bytes_per_second"
HERTZ = 100
Codes = dict[str, tuple[float, int]]
Sampled = Callable[[float], Codes]


@pytest.fixture(params=["native", "python"])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "native":
        require_native(procfs_host.PROCESSES)
    else:
        monkeypatch.setattr(procfs_host, "PROCESSES", None)
    return str(request.param)


@pytest.fixture
def host(tmp_path: Path, step: str) -> Iterator[Sampled]:
    """A host below ``tmp_path``: what it reads, checked, by the moment in seconds."""
    del step
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "sys" / "class" / "net").mkdir(parents=True)
    facts = HostFacts("host-a", str(tmp_path / "proc"), str(tmp_path / "sys"))
    facts.hertz = HERTZ
    source, check = HostSource(HOST, facts), build_pipeline(HOST)

    def sampled(moment: float) -> Codes:
        reading = source.sample(1000.0 + moment, 50.0 + moment)
        check(reading)
        names = [metric.name for metric in HOST.metrics]
        return dict(zip(names, zip(reading.values, reading.codes, strict=True), strict=True))

    yield sampled
    source.close()


def write_stat(root: Path, ticks: list[int], cpus: int = 2) -> None:
    """user, system, idle, iowait, steal, guest; user in the file has guest time in it."""
    user, system, idle, iowait, steal, guest = ticks
    line = f"{user + guest} 0 {system} {idle} {iowait} 0 0 {steal} {guest} 0"
    each = "".join(f"cpu{number} {line}\n" for number in range(cpus))
    (root / "proc" / "stat").write_text(f"cpu  {line}\n{each}intr 5\nctxt 6\n")


def write_traffic(root: Path, **interfaces: tuple[int, int]) -> None:
    rows = [f"{name}: {got} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0\n" for name, (got, sent) in interfaces.items()]
    (root / "proc" / "net" / "dev").write_text("".join(rows))


def add_link(root: Path, name: str, speed: int = -1) -> None:
    link = root / "sys" / "class" / "net" / name
    (link / "device").mkdir(parents=True, exist_ok=True)
    (link / "speed").write_text(f"{speed}\n")


def replayed(name: str, root: Path, host: Sampled) -> list[Codes]:
    """The ticks of a capture, a second apart."""
    found = []
    for number, tick in enumerate(sorted((CAPTURES / name).iterdir())):
        shutil.copytree(tick, root, dirs_exist_ok=True)
        found.append(host(float(number)))
    return found


def test_capture_of_steal_that_jumps_forward(tmp_path: Path, host: Sampled) -> None:
    for found in replayed("steal-jumps-forward", tmp_path, host)[1:]:
        assert found["cpu_steal_ratio"][1] == RATE
        assert [found[name][1] for name in SHARES if name != "cpu_steal_ratio"] == [VALID] * 5
        assert found["cpu_idle_ratio"][0] == pytest.approx(0.965, abs=0.006)
        assert found["cpu_user_ratio"][0] == pytest.approx(0.02)


def test_capture_of_a_slave_whose_master_counts(tmp_path: Path, host: Sampled) -> None:
    found = replayed("accelerated-networking", tmp_path, host)[-1]
    assert found[RECEIVED] == found[SENT] == (1e6, VALID)
    assert found["link_speed_bytes_per_second"] == (6.25e9, VALID)


def test_steal_that_falls_each_second_costs_its_own_share_only(tmp_path: Path, host: Sampled) -> None:
    for second in range(6):
        steal = 2**32 - 4 * 10**8 * second
        write_stat(tmp_path, [20 * second, 10 * second, 150 * second, 15 * second, steal, 5 * second])
        found = host(float(second))
        if second:
            assert found["cpu_steal_ratio"][1] == RESET
            others = {name: found[name] for name in SHARES if name != "cpu_steal_ratio"}
            assert {code for _, code in others.values()} == {VALID}
            expected = dict(zip(SHARES, [0.1, 0.05, 0.75, 0.075, 0, 0.025], strict=True))
            assert {name: value for name, (value, _) in others.items()} == pytest.approx(
                {name: expected[name] for name in others}
            )


@pytest.mark.parametrize("jump", [300, 10**4, 8 * 10**8, 2**32, -(10**4), -(2**31)])
@pytest.mark.parametrize("kind", range(6))
def test_a_jump_costs_one_share_for_one_tick(tmp_path: Path, host: Sampled, kind: int, jump: int) -> None:
    ticks, grown = [10**10] * 6, [60, 30, 80, 10, 12, 8]
    for second in range(5):
        write_stat(tmp_path, ticks)
        found = host(float(second))
        for number, name in enumerate(SHARES) if second else ():
            value, code = found[name]
            if second == 2 and number == kind:
                assert code == (RATE if jump > 0 else RESET)
            else:
                assert (code, value) == (VALID, pytest.approx(grown[number] / 200, abs=0.01))
        ticks = [old + more for old, more in zip(ticks, grown, strict=True)]
        if second == 1:
            ticks[kind] += jump


@given(
    cpus=st.integers(1, 256),
    seconds=st.floats(0.1, 600.0),
    parts=st.lists(st.integers(0, 1000), min_size=6, max_size=6).filter(any),
    wrong=st.dictionaries(st.integers(0, 5), st.floats(1.5, 1e9) | st.floats(-1e9, -1.5), max_size=5),
)
def test_shares_that_did_not_jump_are_right(
    cpus: int, seconds: float, parts: list[int], wrong: dict[int, float]
) -> None:
    whole = cpus * HERTZ * seconds
    assume(whole > 300)
    grown = [int(part * whole / sum(parts)) for part in parts]
    new = [10**15 + each for each in grown]
    for kind, jump in wrong.items():
        new[kind] += int(jump * whole)
    found = shares(new, [10**15] * 6, cpus * HERTZ * growth(seconds), whole)
    for kind, (value, code) in enumerate(found):
        assert (code != VALID) == (kind in wrong)
        assert code != VALID or value == pytest.approx(grown[kind] / whole, abs=0.05)


@given(
    new=st.lists(st.integers(0, 2**64), min_size=6, max_size=6),
    cpus=st.integers(1, 256),
    seconds=st.floats(0.01, 600.0),
)
def test_valid_shares_are_possible(new: list[int], cpus: int, seconds: float) -> None:
    most = cpus * HERTZ * growth(seconds)
    found = shares(new, [0] * 6, most, cpus * HERTZ * seconds)
    valid = [value for value, code in found if code == VALID]
    assert not valid or 0 <= min(valid) <= sum(valid) <= 1 + 1e-9
    assert all(each <= most for each, (_, code) in zip(new, found, strict=True) if code == VALID)


@given(
    seconds=st.floats(0.2, 600.0),
    cpus=st.integers(1, 256),
    busy=st.floats(0, 1),
    off=st.floats(0.9, 1.05),
)
def test_ticks_that_are_a_little_off_are_no_jump(seconds: float, cpus: int, busy: float, off: float) -> None:
    whole = cpus * HERTZ * seconds * off
    new = [int(whole * busy), 0, int(whole * (1 - busy)), 0, 0, 0]
    found = shares(new, [0] * 6, cpus * HERTZ * growth(seconds), cpus * HERTZ * seconds)
    assert {code for _, code in found} == {VALID}


@pytest.mark.parametrize("back", [1, 10, 100])
def test_idle_time_that_is_corrected_leaves_the_other_shares(tmp_path: Path, host: Sampled, back: int) -> None:
    write_stat(tmp_path, [1000] * 6)
    host(0.0)
    write_stat(tmp_path, [1004, 1004, 1000 - back, 1000, 1000, 1000])
    found = host(1.0)
    assert found["cpu_idle_ratio"][1] == RESET
    assert {found[name] for name in SHARES[:2]} == {(0.02, VALID)}


@pytest.mark.parametrize("back", [1, 10, 100])
def test_a_little_step_back_in_a_whole_interval_is_jitter(tmp_path: Path, host: Sampled, back: int) -> None:
    write_stat(tmp_path, [1000] * 6)
    host(0.0)
    write_stat(tmp_path, [1150, 1050, 1000, 1000 - back, 1000, 1000])
    found = host(1.0)
    assert [found[name] for name in SHARES] == [(0.75, VALID), (0.25, VALID), *[(0.0, VALID)] * 4]


def test_cpus_that_went_were_there_in_the_interval(tmp_path: Path, host: Sampled) -> None:
    for second, cpus in enumerate((8, 2, 2, 8, 8)):
        write_stat(tmp_path, [0, 0, 800 * min(second, 1) + (200 * (second - 1) if second > 1 else 0), 0, 0, 0], cpus)
        found = host(float(second))
        assert found["cpu_idle_ratio"] == ((1.0, VALID) if second else found["cpu_idle_ratio"])


def test_a_probe_that_was_stopped_has_all_ticks_of_the_time(tmp_path: Path, host: Sampled) -> None:
    add_link(tmp_path, "eth0", 1000)
    for moment in (0, 1, 61, 62):
        write_stat(tmp_path, [50 * moment, 0, 150 * moment, 0, 0, 0])
        write_traffic(tmp_path, eth0=(120_000_000 * moment, 0))
        found = host(float(moment))
        if moment:
            assert found["cpu_user_ratio"] == (0.25, VALID)
            assert found[RECEIVED] == (120e6, VALID)


@pytest.mark.parametrize(("speed", "most"), [(1000, 125e6), (-1, UNKNOWN_LINK)])
def test_bytes_that_no_link_carries_cost_one_way_for_one_tick(
    tmp_path: Path, host: Sampled, speed: int, most: float
) -> None:
    add_link(tmp_path, "eth0", speed)
    add_link(tmp_path, "eth1", 100_000)
    received = 0
    for second in range(4):
        received += int(most * 2) if second == 2 else 1000
        write_traffic(tmp_path, eth0=(received, 500 * second), eth1=(7000 * second, 0))
        found = host(float(second))
        if second == 2:
            assert found[RECEIVED] == (pytest.approx(most * 2 + 7000), RATE)
        elif second:
            assert found[RECEIVED] == (8000.0, VALID)
        assert found[SENT] == ((500.0, VALID) if second else found[SENT])


def test_a_link_that_became_faster_costs_one_tick(tmp_path: Path, host: Sampled) -> None:
    add_link(tmp_path, "eth0", 1000)
    found = []
    for second in range(4):
        write_traffic(tmp_path, eth0=(10**9 * second, 0))
        found.append(host(float(second))[RECEIVED])
        add_link(tmp_path, "eth0", 10_000)
    assert [code for _, code in found] == [FIRST, RATE, VALID, VALID]
