"""The browser of tests and pictures: what the machine's network does meanwhile is not the page's fault."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator

import pytest

from experiments import testbed
from experiments.harness.chromium import chromium
from experiments.testbed.namespace import Namespace
from tests.support.untested import require

SCRIPTS = 30
# an interface comes and goes for some two seconds
FLAPPING = """
for _ in 1 2 3 4 5 6; do
    ip link add one type veth peer name other; ip addr add 192.0.2.1/24 dev one; ip link set one up; sleep 0.15
    ip link del one; sleep 0.15
done"""


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        threading.Event().wait(0.02)
        scripts = "".join(f"<script type=module src='/{number}.js'></script>" for number in range(SCRIPTS))
        kind, text = ("html", scripts) if self.path == "/" else ("javascript", "window.ran = (window.ran || 0) + 1")
        self.send_response(200)
        self.send_header("Content-Type", f"text/{kind}")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    """A page of many scripts in a network of its own, in which this thread is until the test ends."""
    namespace = Namespace.create()
    with namespace.inside():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}/"
            server.shutdown()
    namespace.close()


@pytest.mark.skipif(bool(testbed.missing()), reason=f"NO NETWORK CAN CHANGE HERE: {testbed.missing()}")
def test_a_page_is_whole_although_the_network_changes_while_it_is_loaded(url: str) -> None:
    require("chromium")
    with chromium() as page, subprocess.Popen(["sh", "-c", FLAPPING], stderr=subprocess.DEVNULL):
        page.open(url)
        assert page.evaluate("window.ran") == SCRIPTS
        assert page.problems == []
