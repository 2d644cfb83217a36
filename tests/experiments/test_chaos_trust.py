"""A master that its clients cannot believe: what they say, that they go on afterwards, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.chaos import installation
from experiments.chaos.faults import KINDS
from experiments.chaos.kinds import Fault
from experiments.chaos.options import Options
from experiments.testbed import missing_for_shards
from tests.support.waiting import eventually

LACK = missing_for_shards()
TRUST = [kind for kind in KINDS.values() if kind.group == "trust"]


@pytest.mark.few
@pytest.mark.skipif(bool(LACK), reason=f"FAULTS OF TRUST ARE NOT TESTED HERE: {LACK}")
def test_untrusted_master_is_reported_once_without_loss(tmp_path: Path) -> None:
    assert len(TRUST) == 7
    options = Options(hosts=12, workers=1, generators=1, archivers=0, entities=4)
    with installation.running(options, tmp_path) as parts:
        generator = parts.generators[0]
        eventually(lambda: sum(account.applied for account in parts.books().accounts))
        for number, kind in enumerate(TRUST):
            parts.cluster.wait_healthy(60.0)
            fault = Fault(float(number), kind.name, number % options.shards, 0.0)
            with kind.make(parts, fault):  # it checks by itself what probes say
                assert [service.ended() for service in parts.services] == [None]
        eventually(lambda: not generator.problems(), says=generator.problems)
        generator.ask("finish")
        installation.drain(parts, 60.0)
        accounts = parts.books().accounts
        assert sum(account.applied for account in accounts) > 0
        assert not [account for account in accounts if account.lost or account.pending]
        assert "_ssl.c" not in (tmp_path / "workers" / "worker-0.log").read_text()
