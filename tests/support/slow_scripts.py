"""Server of a page with many scripts; prints its address when ready.

Run it as ``python -m tests.support.slow_scripts``.

A process of its own: a thread of a test may be none, once another test has imported what patches threads.
"""

from __future__ import annotations

import http.server
import time

SCRIPTS = 30


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(0.02)
        scripts = "".join(f"<script type=module src='/{number}.js'></script>" for number in range(SCRIPTS))
        kind, text = ("html", scripts) if self.path == "/" else ("javascript", "window.ran = (window.ran || 0) + 1")
        self.send_response(200)
        self.send_header("Content-Type", f"text/{kind}")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        pass


if __name__ == "__main__":
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()
