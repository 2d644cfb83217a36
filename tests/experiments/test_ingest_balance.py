"""The benchmark must notice what was lost: entries are taken out of the streams behind the pipeline's back."""

import os
import signal
import time

import pytest

from acquisition.link.cluster import read_layout
from acquisition.link.resp import raise_for
from acquisition.wire import keys
from experiments.harness import balance, ingestion, pipeline, shard_counts
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


def fill_shards(parts):
    """Have the shards refuse frames for a while; answers how many commands they did."""
    places = {parts.cluster.owner(keys.raw(tag)): keys.raw(tag) for tag in read_layout(parts.cluster).tags}
    deadline = time.monotonic() + PATIENCE
    for most in ("1mb", "1gb"):
        for reply in parts.cluster.gather([(key, ("CONFIG", "SET", "maxmemory", most)) for key in places.values()]):
            raise_for(reply)
        while most == "1mb" and refusals(parts, places.values()) < 5 and time.monotonic() < deadline:
            time.sleep(0.05)
    return refusals(parts, places.values())


def refusals(parts, of_shards):
    """How many commands the shards have refused for want of memory."""
    told = [
        raise_for(each).decode() for each in parts.cluster.gather([(key, ("INFO", "errorstats")) for key in of_shards])
    ]
    return sum(int(line.partition("count=")[2]) for text in told for line in text.split() if "errorstat_OOM" in line)


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


def test_a_run_that_lost_frames_says_so_before_the_values_that_differ_for_it(tmp_path):
    options = Options(hosts=10, entities=5, metrics=3, rate=5.0, position_interval=0.3, watched=5, lean=True)
    with pipeline.running(options, tmp_path) as parts:
        parts.tell("start")
        parts.run(1.0)
        refused = fill_shards(parts)
        parts.run(1.0)
        parts.measure_freshness()
        parts.run(0.5)
        freshness = parts.freshness()
        reports = parts.finish()
        books = balance.read(parts.cluster)
        figures = balance.balance(books, sum(report["counts"]["samples"] for report in reports))
        _, verdict = parts.verify(reports)
    told = ingestion.what_failed(
        options, {**figures, **freshness, "missed_ticks": 0}, reports, verdict, balance.incomplete(books)
    )
    assert refused
    assert told[0].startswith("emulated hosts were refused: ")
    assert " x oom" in told[0], told
    assert told[1].endswith("samples were lost")
    differ = next(text for text in told[2:] if "differ from the scalar model" in text)
    assert differ.endswith(", 0 of them of hosts that lost nothing")
