"""The benchmark of the query service: what wrk prints is read right."""

from __future__ import annotations

import pytest

from acquisition.errors import UnavailableError
from experiments.serve_load import wrk

TEXT = """Running 10s test @ http://127.0.0.1:7680/v1/hot
  1 threads and 8 connections
  Latency Distribution
     50%  443.00us
     75%    0.86ms
     90%    1.20ms
     99%    1.03s
  26368 requests in 4.00s, 60.12MB read
  Socket errors: connect 0, read 1, write 0, timeout 2
  Non-2xx or 3xx responses: 7
Requests/sec:   6591.07
Transfer/sec:     15.03MB
"""


def test_what_wrk_prints() -> None:
    assert wrk.parse(TEXT) == wrk.Load(6591.07, 0.443, 1030.0, 10)
    with pytest.raises(UnavailableError, match="no figures"):
        wrk.parse("unable to connect")
