"""The benchmark must notice what was lost: entries are taken out of the streams behind the pipeline's back."""

import os
import signal
import time

import pytest

from acquisition.link.layouts import read_layout
from acquisition.link.resp import raise_for
from acquisition.wire import keys
from experiments.harness import balance, pipeline, shard_counts
from experiments.harness.options import Options
from tests.support.waiting import PATIENCE


def cut_streams(parts):
    """Empty all raw streams while the filter sleeps."""
    (pid,) = parts.roles["filter"]
    os.kill(pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + PATIENCE
        before = shard_counts.read(parts.cluster).stored_frames
        while shard_counts.read(parts.cluster).stored_frames < before + 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        tags = read_layout(parts.cluster).tags
        trims = [(keys.raw(tag), ("XTRIM", keys.raw(tag), "MAXLEN", 0)) for tag in tags]
        return sum(raise_for(reply) for reply in parts.cluster.gather(trims))
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(("held_seconds", "lost"), [(0.2, True), (60.0, False)])
def test_frames_that_vanish_are_sent_again_or_counted_as_lost(tmp_path, held_seconds, lost):
    options = Options(
        hosts=10,
        entities=5,
        metrics=3,
        rate=5.0,
        held_seconds=held_seconds,
        position_interval=0.3,
        drain_seconds=20.0,
        watched=5,
    )
    with pipeline.running(options, tmp_path) as parts:
        parts.tell("start")
        parts.run(1.0)
        assert cut_streams(parts) > 0
        parts.run(1.0)
        reports = parts.finish()
        made = sum(report["counts"]["samples"] for report in reports)
        figures = balance.balance(balance.read(parts.cluster), made)
    assert (figures["samples_lost"] > 0) == lost, figures
    assert figures["samples_applied"] + figures["samples_lost"] == made
    assert bool(balance.problems(figures, overload=False)) == lost
    assert balance.problems(figures, overload=True) == []
