"""Surfaces of the pipeline: every reader, asked once per turn."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError
from acquisition.link.resp import Address
from acquisition.snapshot import Snapshot, SnapshotReader
from experiments.chaos.answers import Said, told
from experiments.emulation.workload import host_name
from experiments.processes.control import product

#: Queries one surface; the answers have no time yet.
Ask = Callable[[], Said]
_LETTERS = {"c": "current", "l": "late", "u": "unknown", "d": "down"}
PATHS = ("/v1/hosts?fields=state", "/v1/hot", "/v1/moves", "/v1/heat", "/v1/snapshot?fields=mean")
_TIMEOUT = 30.0


def reader_surfaces(
    coherent: SnapshotReader, latest: SnapshotReader, connect: Callable[[], SnapshotReader]
) -> list[Ask]:
    """Readers of this process: two long-lived ones, one for each reading, and one created for each query."""

    def once() -> Said:
        with connect() as reader:
            return _of_snapshot("a new reader", reader.coherent)

    return [
        lambda: _of_snapshot("SnapshotReader.coherent", coherent.coherent),
        lambda: _of_snapshot("SnapshotReader.latest", latest.latest),
        once,
    ]


def _of_snapshot(surface: str, read: Callable[[], Snapshot]) -> Said:
    try:
        snapshot = read()
    except ShardpulseError as error:
        return Said(surface, 0.0, told=str(error), refused=True)
    states = {block.host: block.state for block in snapshot.blocks}
    judged = list(states.values()).count("current")
    return Said(surface, 0.0, states, judged, told([snapshot.blind, *snapshot.errors]))


def http_surface(port: int, paths: Sequence[str] = PATHS) -> Ask:
    """Resources of the service in turn."""
    turn = iter(_forever(paths))

    def ask() -> Said:
        path = next(turn)
        surface = path.partition("?")[0]
        try:
            status, document = _get(port, path)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Said(surface, 0.0, told=f"{type(error).__name__}", refused=True)
        if status != http.client.OK:
            return Said(surface, 0.0, told=document.get("detail", ""), refused=True)
        return _of_document(surface, document)

    return ask


def _get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        document: dict[str, Any] = json.loads(answer.read())
        return answer.status, document


def _of_document(surface: str, document: dict[str, Any]) -> Said:
    states: dict[str, str] = {}
    judged: int | None = None
    if surface == "/v1/hosts":
        states = {row["name"]: row["state"] for row in document["hosts"]}
        judged = list(states.values()).count("current")
    elif surface == "/v1/snapshot":
        states = {block["host"]: block["state"] for block in document["blocks"]}
        judged = list(states.values()).count("current")
    elif surface == "/v1/heat":
        states = {host_name(at): _LETTERS.get(letter, "?") for at, letter in enumerate(document["states"])}
        judged = list(states.values()).count("current")
    elif surface == "/v1/hot":
        judged = document["hosts"] - len(document["abstained"])
    return Said(surface, 0.0, states, judged, told([document.get("blind", ""), *document["errors"]]))


def command_surface(config: Path, addresses: Sequence[Address]) -> Ask:
    """The commands in turn; exit code 69 or 75 reports blindness."""
    commands = iter(_forever((("query", "--json"), ("query", "hot"), ("query", "moves"), ("top", "--json"))))

    def ask() -> Said:
        name, option = next(commands)
        command = [*product(name, config, addresses), option]
        if option in ("hot", "moves"):  # the query comes first
            command = [*command[:4], option, *command[4:-1]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        surface, words = f"{name} {option}", done.stderr.strip().splitlines()
        text = words[-1] if words else ""
        if done.returncode not in (0, 69, 75):
            return Said(surface, 0.0, told=f"exit code {done.returncode}: {text}")
        states: dict[str, str] = {}
        if option == "--json" and done.stdout.startswith("{"):
            document = json.loads(done.stdout)
            rows = document["sets"] if name == "query" else document["rows"]
            states = {row.get("host") or row["name"]: row["state"] for row in rows}
            text = text or told([document.get("blind", ""), *document["errors"]])
        judged = list(states.values()).count("current") if states else None
        code = f"exit code {done.returncode}: {text}" if done.returncode else text
        return Said(surface, 0.0, states, judged, code)

    return ask


def stream_events(port: int, is_over: Callable[[], bool]) -> Iterator[Said]:
    """The short document of every tick, and reports of trouble, until it ``is_over`` or ends."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
        connection.request("GET", "/v1/stream")
        answer, kind = connection.getresponse(), ""
        while not is_over() and (line := answer.readline().decode()):
            if line.startswith("event: "):
                kind = line[7:].strip()
            elif line.startswith("data: ") and kind in ("tick", "trouble"):
                document = json.loads(line[6:])
                if kind == "trouble":
                    yield Said("stream", 0.0, told=document["detail"], refused=True)
                else:
                    words = told([document.get("blind", ""), *document["errors"]])
                    yield Said("stream", 0.0, {}, document["current"], words)
        connection.close()


def _forever(things: Sequence[Any]) -> Iterator[Any]:
    while True:
        yield from things
