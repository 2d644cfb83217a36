"""What systemd is told, heard at a socket of the test's."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from acquisition import supervision
from acquisition.supervision import Notifier
from tests.support.service_manager import Manager


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    with Manager(f"@shardpulse-{os.urandom(8).hex()}" if request.param == "abstract" else tmp_path / "notify") as made:
        for name, value in made.environment(watchdog=0.2).items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture(autouse=True)
def sockets_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A notifier keeps its socket for the life of its process; those of tests end with the test."""
    made: list[socket.SocketType] = []
    plain = supervision._socket.socket

    def noted(*arguments: int) -> socket.SocketType:
        made.append(plain(*arguments))
        return made[-1]

    monkeypatch.setattr(supervision, "_socket", SimpleNamespace(**{**vars(supervision._socket), "socket": noted}))
    yield
    for each in made:
        each.close()


def test_the_first_turn_says_that_it_is_ready_and_how_it_goes(manager: Manager) -> None:
    notifier = Notifier()
    notifier.ready()
    assert manager.heard() == []
    notifier.turn(lambda: "all\nis well")
    assert manager.heard() == ["READY=1", "STATUS=all is well", "WATCHDOG=1"]
    notifier.turn(lambda: "all is well")
    assert manager.heard() == []
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)


def test_the_watchdog_is_fed_by_turns_alone_twice_in_its_time(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("acquisition.supervision.time.monotonic", lambda: now)
    notifier = Notifier()
    notifier.turn(lambda: "")
    assert manager.heard() == ["WATCHDOG=1"]
    assert notifier.due == pytest.approx(now + 0.1)
    now += 0.05
    notifier.turn(lambda: "")
    assert manager.heard() == []
    now += 0.06
    notifier.turn(lambda: "")
    assert manager.heard() == ["WATCHDOG=1"]


def test_changing_status_is_sent_once_a_second_with_last_value(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("acquisition.supervision.time.monotonic", lambda: now)
    monkeypatch.delenv("WATCHDOG_USEC")
    notifier = Notifier()
    notifier.turn(lambda: "one")
    notifier.turn(lambda: "two")
    notifier.turn(lambda: "three")
    assert manager.heard() == ["STATUS=one"]
    assert notifier.due == now + 1.0
    now += 1.0
    notifier.turn(lambda: "three")
    assert manager.heard() == ["STATUS=three"]
    assert notifier.due == float("inf")


def test_a_reload_ends_with_ready_and_what_was_no_reload_says_nothing(manager: Manager) -> None:
    notifier = Notifier()
    notifier.reloaded()
    notifier.turn(lambda: "")
    assert "READY=1" not in manager.heard()
    notifier.reloading()
    assert manager.heard()[0] == "RELOADING=1"
    notifier.turn(lambda: "")
    assert "READY=1" not in manager.heard()
    notifier.reloaded()
    notifier.turn(lambda: "")
    assert "READY=1" in manager.heard()
    notifier.stopping()
    assert manager.heard() == ["STOPPING=1", "STATUS=stopping"]


def test_what_cannot_be_delivered_is_said_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    notifier = Notifier()
    notifier.ready()
    notifier.turn(lambda: "well")
    with Manager(tmp_path / "notify") as manager:
        notifier.turn(lambda: "well")
        assert manager.heard() == ["READY=1", "STATUS=well"]


@pytest.mark.parametrize(
    "environment",
    [{}, {"NOTIFY_SOCKET": "vsock:2:1"}, {"NOTIFY_SOCKET": "relative"}, {"NOTIFY_SOCKET": ""}],
)
def test_where_nobody_listens_nothing_is_asked(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WATCHDOG_USEC": "1000000", **environment}.items():
        monkeypatch.setenv(name, value)
    notifier = Notifier()
    notifier.ready()
    notifier.turn(lambda: pytest.fail("it was asked"))
    notifier.stopping()
    assert notifier.due == float("inf")


@pytest.mark.parametrize(("microseconds", "pid"), [("200000", "1"), ("soon", ""), ("", ""), ("0", "")])
def test_a_watchdog_that_is_not_ours_is_not_fed(
    microseconds: str, pid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Manager(tmp_path / "notify") as manager:
        for name, value in {**manager.environment(), "WATCHDOG_USEC": microseconds, "WATCHDOG_PID": pid}.items():
            monkeypatch.setenv(name, value)
        notifier = Notifier()
        notifier.turn(lambda: "")
        assert manager.heard() == []
        assert notifier.due == float("inf")
