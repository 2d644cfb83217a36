import os
import subprocess
import sys
import time

import pytest

from acquisition.shards.servers import redis_binary
from experiments.harness import machine, outcome, usage


def test_a_busy_process_is_charged_to_its_role():
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        roles = {"burner": [child.pid], "self": [os.getpid()]}
        before = usage.read(roles)
        deadline = time.monotonic() + 10
        while usage.cpu_seconds(child.pid) - before.cpu["burner"] < 0.2 and time.monotonic() < deadline:
            time.sleep(0.02)
        cores = usage.cores(before, usage.read(roles))
        assert 0.05 < cores["burner"] <= 1.2
        assert cores["self"] < cores["burner"]
        assert usage.memory(roles)["burner"] > 1_000_000
    finally:
        child.kill()
        child.wait()


def test_a_process_that_is_gone_is_an_error():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(OSError, match=str(child.pid)):
        usage.read({"gone": [child.pid]})


def test_the_machine_is_described():
    document = machine.describe()
    assert document["cores"] >= 1
    assert document["memory_bytes"] > 1 << 28
    assert document["packages"]["numpy"]


def test_a_result_names_the_server_that_ran(tmp_path, monkeypatch):
    found = outcome.document("planner", [], [], {})["machine"]["redis_server"]
    assert found == f"Redis {redis_binary.find().version}"
    other = tmp_path / "valkey-server"
    other.write_text("#!/bin/sh\necho 'Valkey server v=8.1.3 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0'\n")
    other.chmod(0o755)
    monkeypatch.setenv(redis_binary.ENVIRONMENT, str(other))
    assert machine.describe()["redis_server"] == "Valkey 8.1.3"
    monkeypatch.setenv(redis_binary.ENVIRONMENT, str(tmp_path / "nothing"))
    assert machine.describe()["redis_server"] == ""


def test_provenance_repeats_the_command():
    document = machine.provenance(["--hosts", "3", "--rate", "max rate"], "experiments.ingest")
    assert document["command"] == "python -m experiments.ingest --hosts 3 --rate 'max rate'"
    assert document["date"].endswith("+00:00")


def test_outside_a_checkout_there_is_no_commit(tmp_path):
    assert machine.commit(tmp_path) == ""
