"""The browser of tests and pictures: what the machine's network does meanwhile is not the page's fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from experiments import testbed
from experiments.harness.chromium import chromium
from experiments.testbed.namespace import Namespace
from tests.support.slow_scripts import SCRIPTS
from tests.support.untested import require

# an interface comes and goes for some two seconds
FLAPPING = """
for _ in 1 2 3 4 5 6; do
    ip link add one type veth peer name other; ip addr add 192.0.2.1/24 dev one; ip link set one up; sleep 0.15
    ip link del one; sleep 0.15
done"""


@pytest.fixture
def url() -> Iterator[str]:
    """A page of many scripts in a network of its own, in which this thread is until the test ends."""
    namespace = Namespace.create()
    serve = [sys.executable, "-m", "tests.support.slow_scripts"]
    with namespace.inside():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
            server.kill()
    namespace.close()


@pytest.mark.skipif(bool(testbed.missing()), reason=f"NO NETWORK CAN CHANGE HERE: {testbed.missing()}")
def test_page_loads_completely_despite_network_changes(url: str) -> None:
    require("chromium")
    with chromium() as page, subprocess.Popen(["sh", "-c", FLAPPING], stderr=subprocess.DEVNULL):
        page.open(url)
        assert page.evaluate("window.ran") == SCRIPTS
        assert page.problems == []
