"""``shardpulse status`` on real shards, with real writers and filter workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acquisition.cli import main as shardpulse
from acquisition.errors import (
    EXIT_DATA,
    EXIT_OK,
    EXIT_PERMISSION,
    EXIT_TEMPORARY,
    EXIT_UNAVAILABLE,
    EXIT_UNBALANCED,
    EXIT_USAGE,
    ShardpulseError,
    TemporaryError,
)
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Connection
from acquisition.shards.servers.launch import Shards
from acquisition.status.document import StatusDocument
from acquisition.wire import keys, position
from tests.support.fixture_types import MakePipeline, StartCluster
from tests.support.waiting import PATIENCE, eventually
from tests.support.writer_bench import HOST, OTHER_SET, SET, Pipeline

Capture = pytest.CaptureFixture[str]
StartFilter = Callable[[Shards], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_filter() -> Iterator[StartFilter]:
    running: list[subprocess.Popen[bytes]] = []

    def start(shards: Shards) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "acquisition", "filter", "--shards", _addresses(shards)]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


def _addresses(shards: Shards) -> str:
    return ",".join(str(address) for address in shards.addresses)


def ask(shards: Shards, capture: Capture, *options: str) -> tuple[int, str]:
    code = shardpulse(["status", "--shards", _addresses(shards), *options])
    return code, capture.readouterr().out


def look(shards: Shards, capture: Capture, *options: str) -> dict[str, Any]:
    code, out = ask(shards, capture, "--json", *options)
    found: dict[str, Any] = json.loads(out)
    assert found["exit_code"] == code
    return found


def kinds(found: dict[str, Any]) -> set[str]:
    return {finding["kind"] for finding in found["findings"]}


def fill(pipeline: Pipeline, frames: int = 5) -> None:
    for _ in range(frames):
        pipeline.offer(1, SET)
        pipeline.offer(1, OTHER_SET, 3)
        pipeline.turn()
    assert pipeline.writer.drain(PATIENCE)


def test_a_pipeline_that_works(
    make_pipeline: MakePipeline, shards: Shards, start_filter: StartFilter, capsys: Capture
) -> None:
    process = start_filter(shards)
    pipeline = make_pipeline(position_interval=0.1)
    fill(pipeline)
    found: dict[str, Any] = {}

    def works() -> bool:
        fill(pipeline, 1)  # time passes, and samples are made
        found.update(look(shards, capsys))
        return bool(found["verdict"] == "ok" and found["books"]["applied"] and not found["books"]["pending"])

    eventually(works)
    books = found["books"]
    assert books["balanced"]
    assert books["made"] == books["applied"] == sum(w.made for w in pipeline.outbox.windows.values())
    assert (books["lost"], books["before"], books["unreported"], books["silent"]) == (0, 0, 0, 0)
    assert set(found["sets"]) == {"host", "processes"}
    assert sum(row["slots"] for row in found["shards"]) == 16384
    assert all(row["pinned"] and row["role"] == "master" and row["memory_bytes"] for row in found["shards"])
    (worker,) = found["workers"]
    assert worker["name"].endswith(f":{process.pid}")
    assert len(worker["partitions"]) == keys.DEFAULT_PARTITIONS
    assert worker["step"] in ("native", "numpy")
    assert 0 <= found["freshness"]["p50"] <= found["freshness"]["worst"] < 5
    code, text = ask(shards, capsys)
    assert code == EXIT_OK
    assert "books balanced   pipeline all parts work" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    os.kill(process.pid, signal.SIGSTOP)
    try:
        eventually(lambda: look(shards, capsys)["exit_code"] == EXIT_UNAVAILABLE)
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_every_key_of_the_document_is_documented(cluster: Cluster, shards: Shards, capsys: Capture) -> None:
    found = look(shards, capsys)
    described = json.dumps(msgspec.json.schema(StatusDocument))
    for key in (*found, *found["books"]):
        assert key in described, key


def test_nothing_there_yet(cluster: Cluster, shards: Shards, capsys: Capture) -> None:
    found = look(shards, capsys)
    assert (found["exit_code"], found["verdict"], found["freshness"]) == (EXIT_TEMPORARY, "blind", None)
    text = ask(shards, capsys)[1]
    assert "no samples yet" in text
    assert "pipeline BLIND" in text


def test_samples_that_no_filter_takes(make_pipeline: MakePipeline, shards: Shards, capsys: Capture) -> None:
    fill(make_pipeline())
    found = look(shards, capsys)
    assert (found["exit_code"], found["verdict"]) == (EXIT_UNAVAILABLE, "down")
    assert any("start `shardpulse filter`" in finding["text"] for finding in found["findings"])
    assert found["books"]["pending"] == found["books"]["made"] == 40
    assert max(row["behind_seconds"] for row in found["partitions"]) > 0


def test_cooked_books_are_named(make_pipeline: MakePipeline, shards: Shards, capsys: Capture) -> None:
    pipeline = make_pipeline(position_interval=0.1)
    pipeline.start_filter()
    pipeline.offer(5)
    pipeline.turn_until(pipeline.is_applied)
    pipeline.turn_for(0.3)
    known = pipeline.position()
    assert known is not None
    key = keys.applied(pipeline.tag)
    cooked = position.encode(known._replace(applied=known.applied - 3))
    pipeline.cluster.call(key, "HSET", key, keys.member(HOST, SET), cooked)
    code, text = ask(shards, capsys)
    assert code == EXIT_UNBALANCED
    assert "books NOT BALANCED" in text
    assert "3 UNACCOUNTED FOR" in text
    assert "host alpha set host: 3 samples" in " ".join(text.split())
    found = look(shards, capsys, "--host", "alpha")
    (row,) = found["hosts"]
    assert (row["resource_set"], row["difference"], row["balanced"]) == ("host", 3, False)
    pipeline.cluster.call(key, "HSET", key, keys.member(HOST, SET), position.encode(known))
    status_key = keys.status(pipeline.tag, HOST)
    record = json.loads(pipeline.cluster.call(status_key, "GET", status_key))
    record["sets"][f"{SET:08x}"][record["fields"].index("made")] += 7
    pipeline.cluster.call(status_key, "SET", status_key, json.dumps(record))
    assert look(shards, capsys)["verdict"] == "unbalanced"


def test_one_host_alone(make_pipeline: MakePipeline, shards: Shards, capsys: Capture) -> None:
    fill(make_pipeline())
    code, text = ask(shards, capsys, "--host", "alpha")
    assert code == EXIT_UNAVAILABLE
    assert text.count("made, of which") == 2
    assert max(map(len, text.splitlines())) <= 80
    assert shardpulse(["status", "--shards", _addresses(shards), "--host", "beta"]) == EXIT_DATA
    assert "unknown host beta" in capsys.readouterr().err
    assert ask(shards, capsys, "--host", f"{HOST:016x}")[1].count("alpha") == 2


def test_a_shard_that_is_gone_is_said_to_be(start_cluster: StartCluster, capsys: Capture) -> None:
    shards = start_cluster(3)
    with contextlib.closing(shards.connect()) as cluster:
        pipeline = Pipeline(cluster, shards.addresses, host=0)
        fill(pipeline)
        pipeline.close()
    os.kill(shards.pids[2], signal.SIGKILL)
    found = look(shards, capsys)
    assert (found["exit_code"], found["verdict"]) == (EXIT_UNAVAILABLE, "down")
    assert found["books"]["made"] == 40
    assert not found["books"]["balanced"]
    gone = next(row for row in found["shards"] if not row["answering"])
    assert {gone[name] for name in ("memory_bytes", "slots", "clients", "uptime_seconds", "clock")} == {None}
    assert gone["address"] == str(shards.addresses[2])
    assert "is unreachable" in gone["problem"]
    text = ask(shards, capsys)[1]
    assert "INCOMPLETE" in text
    unread = len(found["books"]["unreadable"])
    assert f"Unknown: {unread} of {keys.DEFAULT_PARTITIONS} partitions could not be read; figures exclude them" in text
    assert "hosts     at least 1; " in text
    assert f" in {keys.DEFAULT_PARTITIONS - unread} of these," in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert f"{shards.addresses[2]}" in text
    assert shardpulse(["status", "--shards", _addresses(shards), "--host", "beta"]) == EXIT_UNAVAILABLE
    assert "host beta: not in the books that could be read" in capsys.readouterr().err
    for pid in shards.pids[:2]:
        os.kill(pid, signal.SIGKILL)
    assert shardpulse(["status", "--shards", _addresses(shards)]) == EXIT_UNAVAILABLE
    assert "no shard answers" in capsys.readouterr().err


def test_two_shards_have_no_majority_without_each_other(start_cluster: StartCluster, capsys: Capture) -> None:
    shards = start_cluster(2)
    cluster = shards.connect()
    pipeline = Pipeline(cluster, shards.addresses, host=0)
    fill(pipeline)
    assert not [row for row in look(shards, capsys)["findings"] if row["about"] == "majority"]
    os.kill(shards.pids[1], signal.SIGKILL)

    def told() -> list[str]:
        return [row["text"] for row in look(shards, capsys)["findings"] if row["about"] == "majority"]

    (text,) = eventually(told)
    assert "1 of 2 masters answer, which is no majority" in text
    survivor = Connection(shards.addresses[0])

    def refusal() -> str:
        try:
            survivor.call("GET", "anything")
        except TemporaryError as error:
            return str(error)
        except ShardpulseError:  # it belongs to the other one
            return ""
        return ""

    assert "two masters have no majority without each other" in eventually(refusal)
    survivor.close()
    assert told(), "also when the other one refuses everything"
    eventually(lambda: look(shards, capsys)["books"] is None)
    text = ask(shards, capsys)[1]
    assert "books NOT READ   pipeline DOWN" in text
    for title in ("samples", "frames", "hosts", "age", "filter", "readers"):
        assert f"{title:<10}unknown\n" in text
    assert not any(f" {said}" in text for said in ("0 made", "0 lost", "0.00 s behind", "no samples"))
    found = look(shards, capsys, "--lossless")
    unread = ("books", "sets", "freshness", "workers", "unowned", "partitions", "readers")
    assert {name: found[name] for name in unread} == dict.fromkeys(unread)
    assert shardpulse(["status", "--shards", _addresses(shards), "--host", "alpha"]) == EXIT_UNAVAILABLE
    assert "not in the books that could be read" in capsys.readouterr().err
    pipeline.close()
    cluster.close()


def test_replicas_and_credentials(start_cluster: StartCluster, capsys: Capture) -> None:
    shards = start_cluster(1, replicas=1)
    found = look(shards, capsys)
    master, replica = found["shards"]
    assert (master["role"], master["replicas"], replica["role"]) == ("master", 1, "replica")
    assert replica["replica_of"] == master["address"]
    assert replica["in_sync"]
    assert replica["lag_bytes"] is not None
    os.kill(replica["pid"], signal.SIGKILL)
    found = look(shards, capsys)
    assert [row["address"] for row in found["shards"] if not row["answering"]] == [replica["address"]]
    assert "down" in kinds(found)
    with contextlib.closing(Connection(shards.addresses[0])) as connection:
        connection.call("CONFIG", "SET", "requirepass", "secret")
    assert shardpulse(["status", "--shards", str(shards.addresses[0])]) == EXIT_PERMISSION
    assert "NOAUTH" in capsys.readouterr().err


def test_watching_answers_again_and_again(make_pipeline: MakePipeline, shards: Shards, capsys: Capture) -> None:
    fill(make_pipeline())
    _, out = ask(shards, capsys, "--json", "--watch", "0.1", "--count", "3")
    assert [json.loads(line)["books"]["made"] for line in out.splitlines()] == [40, 40, 40]


def test_an_interval_of_no_time_is_refused() -> None:
    with pytest.raises(SystemExit, match=str(EXIT_USAGE)):
        shardpulse(["status", "--watch", "0"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.binary(max_size=150), st.binary(max_size=60), st.text(max_size=30), st.binary(max_size=40))
def test_hostile_keys_are_a_complaint_and_never_a_crash(
    cluster: Cluster, shards: Shards, capsys: Capture, rubbish: bytes, commit: bytes, name: str, holder: bytes
) -> None:
    tag = keys.tags(keys.DEFAULT_PARTITIONS)[1]
    key = keys.applied(tag)
    cluster.call(key, "DEL", key)
    cluster.call(key, "HSET", key, keys.member(1, SET), rubbish, b"\x1b[2J" + rubbish, rubbish)
    row = [9, 5, 5, 1, 5, "5-0", 5, 5, 0, 0, 0, 0, 5]
    fields = "epoch made frames floor sent sent_id sent_samples applied resent_frames dropped_frames dropped_samples"
    record = {"format": 1, "host": f"\x1b[2J{name}", "wall": 1.0, "fields": [*fields.split(), "go_backs", "newer"]}
    record["sets"] = {f"{SET:08x}": row}
    for written, value in (
        (keys.status(tag, 1), json.dumps(record)),
        (keys.commit(tag), commit),
        (keys.lease(tag), holder),
    ):
        cluster.call(written, "SET", written, value)
    workers = keys.workers(tag)
    cluster.call(workers, "ZADD", workers, 1, holder)
    code, text = ask(shards, capsys)
    assert code == EXIT_UNBALANCED
    assert "\x1b" not in text
    assert look(shards, capsys)["findings"]
