"""``wrk`` (https://github.com/wg/wrk): request rate and latency percentiles."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple

from acquisition.errors import UnavailableError

_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60000.0}


class Load(NamedTuple):
    """Latencies in milliseconds; ``failed`` counts answers other than 2xx and 3xx, and socket errors."""

    requests_per_second: float
    p50: float
    p99: float
    failed: int


def run(url: str, seconds: int, connections: int, headers: tuple[str, ...] = ()) -> Load:
    """Run one thread with this number of connections, each in a closed loop. Raises UnavailableError if it fails."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency"]
    for header in headers:
        command += ["-H", header]
    done = subprocess.run([*command, url], capture_output=True, text=True, timeout=seconds + 30, check=False)
    if done.returncode:
        raise UnavailableError(f"wrk: {done.stderr.strip() or done.stdout.strip()}")
    return parse(done.stdout)


def parse(text: str) -> Load:
    """The figures printed by wrk. Raises UnavailableError if they are missing."""
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    p50, p99 = (re.search(rf"^\s+{part}%\s+([\d.]+)(us|ms|s|m)$", text, re.MULTILINE) for part in (50, 99))
    if rate is None or p50 is None or p99 is None:
        raise UnavailableError(f"wrk printed no figures: {text.strip()}")
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    count = int(failed[1]) if failed else 0
    count += sum(map(int, errors.groups())) if errors else 0
    return Load(float(rate[1]), _milliseconds(p50), _milliseconds(p99), count)


def _milliseconds(found: re.Match[str]) -> float:
    return round(float(found[1]) * _UNITS[found[2]], 3)
