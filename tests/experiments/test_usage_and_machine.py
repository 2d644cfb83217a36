import os
import subprocess
import sys
import time

import pytest

from experiments.harness import machine, usage


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
    document = machine.describe("7.0.15")
    assert document["cores"] >= 1
    assert document["memory_bytes"] > 1 << 28
    assert document["redis_server"] == "7.0.15"
    assert document["packages"]["numpy"]


def test_provenance_repeats_the_command():
    document = machine.provenance(["--hosts", "3", "--rate", "max rate"], "experiments.ingest")
    assert document["command"] == "python -m experiments.ingest --hosts 3 --rate 'max rate'"
    assert document["date"].endswith("+00:00")


def test_outside_a_checkout_there_is_no_commit(tmp_path):
    assert machine.commit(tmp_path) == ""
