"""Scheduler: poll, migrate, report. Usage: scheduler.py URL TOKEN_FILE COMMAND ..."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

URL, TOKEN_FILE, *COMMAND = sys.argv[1:]  # COMMAND migrates a VM: {vm} {source} {destination} are replaced in it


def call(path: str, body: dict[str, str] | None = None) -> Any:
    """Answer of the service to GET, or to POST of a body."""
    headers = {"Authorization": f"Bearer {Path(TOKEN_FILE).read_text().strip()}", "Content-Type": "application/json"}
    request = Request(URL + path, json.dumps(body).encode() if body else None, headers)
    with urlopen(request, timeout=10) as answer:
        return json.load(answer)


def migrate(move: dict[str, Any]) -> None:
    """Carry out one move, and report its beginning and its end."""
    names = {"vm": move["vm"]["id"], "source": move["source"]["host"], "destination": move["destination"]["host"]}
    print("{vm}: {source} -> {destination}: ".format(**names) + move["why"]["host"]["reason"], flush=True)
    call("/v1/migrations", names | {"phase": "started"})
    failed = subprocess.run([word.format(**names) for word in COMMAND], check=False).returncode
    call("/v1/migrations", names | {"phase": "failed" if failed else "finished"})


while True:
    try:
        for proposed in (call("/v1/moves")["moves"] or ())[:1]:  # null: nothing is known, so nothing is moved
            migrate(proposed)
    except HTTPError as error:
        print(json.load(error)["detail"], flush=True)
    except OSError as error:  # the service is away
        print(error, flush=True)
    time.sleep(1)
