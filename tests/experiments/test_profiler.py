import json
import subprocess
import sys
import time

from experiments.processes.profiler import format_profile, profiling


def burn(seconds):
    until = time.process_time() + seconds
    count = 0
    while time.process_time() < until:
        count += 1
    return count


def test_the_busy_function_leads(tmp_path):
    output = tmp_path / "profile.json"
    with profiling(str(output)):
        burn(0.3)
    document = json.loads(output.read_text())
    assert document["samples"] > 20
    assert document["lines"][0]["function"] == "burn"
    assert any(row["function"] == "burn" and row["share"] > 0.8 for row in document["functions"])
    assert "burn" in format_profile("test", document)


def test_a_module_runs_under_it_as_under_python(tmp_path):
    output = tmp_path / "profile.json"
    command = [sys.executable, "-m", "experiments.processes.profiler", str(output), "json.tool", "--compact"]
    done = subprocess.run(command, input="[1, 2]", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1,2]"
    assert "lines" in json.loads(output.read_text())
