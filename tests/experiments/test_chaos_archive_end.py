"""An archiver that has to be killed in the end is told by name: its last minutes are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.errors import TemporaryError
from experiments import testbed
from experiments.chaos import archive
from experiments.chaos.service import Service
from experiments.testbed import Testbed
from tests.support.waiting import PATIENCE, eventually

LACK = testbed.missing_for_shards()
pytestmark = pytest.mark.skipif(bool(LACK), reason=f"ARCHIVERS OF A CHAOS RUN ARE NOT TESTED HERE: {LACK}")
WAITS_FOR_SHARDS = ["filter", "--shards", "127.0.0.1:1", "--wait", "600"]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[list[Service]]:
    with Testbed(hosts=1) as bed:
        made = [Service(f"archiver {n}", bed.hosts[0], WAITS_FOR_SHARDS, tmp_path / f"{n}.log") for n in range(2)]
        for one in made:
            one.start()
        eventually(lambda: all("127.0.0.1:1" in (tmp_path / f"{n}.log").read_text() for n in range(2)))
        yield made
        for one in made:
            one.kill()


def test_those_that_finish_by_themselves_are_no_failure(services: list[Service]) -> None:
    archive.end(services, PATIENCE)


def test_one_that_does_not_finish_is_killed_and_told(services: list[Service]) -> None:
    services[1].freeze()  # it hears no SIGTERM
    services[0].stop(PATIENCE)
    assert services[1].ended() is None
    told = "^archiver 1 did not finish within 0.5 s of SIGTERM and had to be killed: the archive was not compared$"
    with pytest.raises(TemporaryError, match=told):
        archive.end(services, 0.5)
