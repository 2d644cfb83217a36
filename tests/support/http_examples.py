"""HTTP examples of docs/http.md: answers about two hosts with three VMs.

``python -m tests.support.http_examples --write`` puts them there. tests/filters/service/test_http_examples.py holds the
members of what stands there equal to those of what is answered, so a change of an answer is a change of the page.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards, start_shards
from tests.support import ROOT
from tests.support.data_center import Guest, Machine
from tests.support.page_scene import Data
from tests.support.serving import Events, Reply, Serving

PAGE = ROOT / "docs" / "http.md"
TITLE = "## Examples"
#: Resource -> the request of its example.
REQUESTS = {
    "hot": "/v1/hot",
    "moves": "/v1/moves",
    "place": "/v1/place?vcpus=2&memory=4294967296&use=50",
    "report": "/v1/migrations",
    "migrations": "/v1/migrations",
    "hosts": "/v1/hosts?metric=cpu_busy_ratio&limit=1",
    "host": "/v1/hosts/host-1?set=vms&metric=cpu_ratio&top=1",
    "vms": "/v1/vms?host=host-2",
    "neighbours": "/v1/hosts/host-1/neighbours?limit=1",
    "entity": "/v1/entities/uuid-database?metric=cpu_ratio",
    "recent": "/v1/entities/uuid-database/recent?metric=cpu_ratio",
    "snapshot": "/v1/snapshot?host=host-1&set=vms&metric=cpu_ratio",
    "figures": "/v1/figures",
    "heat": "/v1/heat",
    "roster": "/v1/roster",
    "status": "/v1/status",
    "metrics": "/metrics?entities=no&inputs=none",
    "stream": "/v1/stream?topic=tick",
    "openapi": "/openapi.json",
}
PROBLEM = "/v1/hosts/host-9"
_REPORT = {"vm": "uuid-database", "source": "host-1", "destination": "host-2", "phase": "started"}
_WIDTH = 118
_LONG, _SHOWN = 8, 3  #: a longer list is shown with its first elements
_LINES = 12  #: that are shown of an answer that is no JSON
_MORE = "…"


@contextlib.contextmanager
def scene(cluster: Cluster, shards: Shards, directory: Path) -> Iterator[Serving]:
    """The service of the examples, as soon as it proposes a move."""
    machines = [
        Machine(
            cluster, "host-1", [Guest("database", 5.5, 8), Guest("web", 2.0, 2, {"owner": "proxmox", "vmid": "302"})]
        ),
        Machine(cluster, "host-2", [Guest("mail", 0.2, 2)]),
    ]
    with Data(cluster, machines), Serving(directory, shards.addresses) as service:
        service.until("/v1/moves", lambda reply: reply.status == 200 and bool(reply.json["moves"]))
        yield service


def answers(service: Serving) -> dict[str, str]:
    """Resource, and ``problem``, -> what it answers, as the page has it."""
    found = {name: _shown(_answer(service, name, path)) for name, path in REQUESTS.items()}
    return found | {"problem": _shown(service.ask(PROBLEM))}


def page(found: Mapping[str, str]) -> str:
    """docs/http.md with other examples."""
    before = PAGE.read_text().partition(TITLE)[0]
    paths = REQUESTS | {"problem": PROBLEM}
    parts = [f"{_request(name, paths[name])}\n\n```{_language(text)}\n{text}\n```\n" for name, text in found.items()]
    said = (
        "One answer of each resource, and a problem: two hosts, one of them hot. Long lists are cut (`…`).\n"
        "`python -m tests.support.http_examples --write` makes this section.\n"
    )
    return f"{before}{TITLE}\n{said}\n" + "\n".join(parts)


def documented() -> dict[str, Any]:
    """Resource, and ``problem``, -> the JSON that the page shows, in its order; text where it is none."""
    section = PAGE.read_text().partition(TITLE)[2].split("```")[1::2]
    texts = [block.partition("\n")[2] for block in section]
    return {name: parsed(text) for name, text in zip([*REQUESTS, "problem"], texts, strict=True)}


def parsed(text: str) -> Any:
    """The JSON of an example, or its text."""
    return json.loads(text) if text.startswith(("{", "[")) else text


def difference(shown: Any, found: Any, path: str = "") -> str:
    """Where the members or the types of two answers differ, empty if nowhere; what is null or empty in one of them may
    be anything in the other."""
    if shown is None or found is None:
        return ""
    if isinstance(shown, bool) or not isinstance(shown, int | float) or isinstance(found, bool):
        if type(shown) is not type(found):
            return f"{path}: {type(shown).__name__} and {type(found).__name__}"
    elif not isinstance(found, int | float):
        return f"{path}: a number and {type(found).__name__}"
    if isinstance(shown, dict):
        if shown and found and shown.keys() != found.keys():
            return f"{path}: {sorted(shown.keys() ^ found.keys())}"
        parts = (difference(shown[key], found[key], f"{path}.{key}") for key in shown.keys() & found.keys())
        return next(filter(None, parts), "")
    if isinstance(shown, list) and shown and found:
        return difference(shown[0], found[0], f"{path}[]")
    return ""


def _answer(service: Serving, name: str, path: str) -> Reply | str:
    if name == "report":
        return service.report(**_REPORT)
    if name == "stream":
        events = Events(service, path)
        fields = events.next()
        events.close()
        return "\n".join(f"{key}: {value}" for key, value in fields.items())
    return service.ask(path)


def _shown(reply: Reply | str) -> str:
    if isinstance(reply, str):
        return reply
    text = reply.body.decode()
    if "json" not in reply.headers["content-type"]:
        lines = text.splitlines()
        return "\n".join([*lines[:_LINES], _MORE] if len(lines) > _LINES else lines)
    document = reply.json
    if "openapi" in document:
        document = {key: _MORE if isinstance(value, dict) else value for key, value in document.items()}
    return pretty(document)


def pretty(value: Any, indent: int = 0, before: int = 0) -> str:
    """JSON for people: as much on a line as fits, after ``indent`` blanks and ``before`` other characters."""
    if isinstance(value, list) and len(value) > _LONG:
        value = [*value[:_SHOWN], _MORE]
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or indent + before + len(line) <= _WIDTH or not value:
        return line
    inner = indent + 1
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {pretty(each, inner, len(key) + 4)}" for key, each in value.items()]
        opening, closing = "{", "}"
    else:
        parts, opening, closing = [pretty(each, inner) for each in value], "[", "]"
    lines = [parts[0]]
    for part in parts[1:]:
        if "\n" in lines[-1] + part or inner + len(lines[-1]) + len(part) + 3 > _WIDTH:
            lines.append(part)
        else:
            lines[-1] += f", {part}"
    return f"{opening}{f',{chr(10)}'.join(lines)}{closing}".replace("\n", "\n ")


def _request(name: str, path: str) -> str:
    method = "POST" if name == "report" else "GET"
    body = f" with `{json.dumps(_REPORT)}`" if name == "report" else ""
    return f"**`{method} {path}`**{body}"


def _language(text: str) -> str:
    return "json" if text.startswith(("{", "[")) else "text"


def main(argv: list[str]) -> None:
    """Print the page with examples that are made now, or write it."""
    with (
        tempfile.TemporaryDirectory() as name,
        start_shards(1, Path(name) / "shards", maxmemory_bytes=64 << 20) as shards,
        contextlib.closing(shards.connect()) as cluster,
        scene(cluster, shards, Path(name)) as service,
    ):
        text = page(answers(service))
    if argv == ["--write"]:
        PAGE.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
