"""The page's static files: whatever lies in a directory, and no Python."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message

from filters.service.page import page_routes


def get(directory: Path, path: str, known: str = "") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a file, for a client that has the one with the entity tag ``known``."""
    (mount,) = page_routes(directory)
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.Event().wait()  # the client stays
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": [], "query_string": b""}
    if known:
        scope["headers"] = [(b"if-none-match", known.encode())]
    asyncio.run(mount.app(scope, receive, send))  # type: ignore[attr-defined]
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<!doctype html><title>shardpulse</title>")
    (tmp_path / "__init__.py").write_text("SECRET = 1")
    (tmp_path / ".hidden").write_text("hidden")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "plot.js").write_text("export const plot = 1")
    (tmp_path.parent / "outside.html").write_text("outside")
    return tmp_path


def test_files_have_types_tags_and_the_headers_of_the_page(directory: Path) -> None:
    status, headers, body = get(directory, "/")
    assert (status, body[:9]) == (200, b"<!doctype")
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert get(directory, "/index.html")[2] == body
    unchanged = get(directory, "/", headers["etag"])
    assert (unchanged[0], unchanged[1]["etag"], unchanged[2]) == (304, headers["etag"], b"")
    status, headers, _ = get(directory, "/lib/plot.js")
    assert (status, headers["content-type"].split(";")[0]) == (200, "text/javascript")


@pytest.mark.parametrize(
    "path",
    ["/__init__.py", "/.hidden", "/none.html", "/../outside.html", "/lib", "/lib/../__init__.py", "/" + "x" * 5000],
)
def test_what_is_not_of_the_page(directory: Path, path: str) -> None:
    with pytest.raises(HTTPException) as caught:
        get(directory, path)
    assert caught.value.status_code == 404
