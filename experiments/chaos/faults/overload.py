"""Overload: more samples than the filter can process."""

from __future__ import annotations

import time
from collections.abc import Iterator

from experiments.chaos.faults.targets import until
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind

_FRESH_SECONDS = 2.0  #: greatest age of samples in a pipeline that keeps up
_CALM_LOOKS = 3


@kind("overload", "cluster", 15.0, 60.0, 5.0)
def talkative_hosts(installation: Installation, _fault: Fault) -> Iterator[None]:
    """A quarter of the hosts sample ten times as often: twice what the filter, which is slow, can take."""
    _set_loud(installation, True)
    try:
        yield
        until(lambda: any(account.sheds for account in installation.books().accounts), "no host is said to shed")
    finally:
        _set_loud(installation, False)
    until(lambda: _is_normal(installation), "hosts shed, or are late, long after the load has fallen")


def _set_loud(installation: Installation, loud: bool) -> None:
    for generator in installation.generators:
        generator.send("talk", loud=loud)


def _is_normal(installation: Installation) -> bool:
    """Whether no host sheds and everything is fresh, for a few seconds."""
    for _ in range(_CALM_LOOKS):
        accounts = installation.books().accounts
        if any(account.sheds or time.time() - account.wall > _FRESH_SECONDS for account in accounts):
            return False
        time.sleep(1.0)
    return True
