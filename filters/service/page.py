"""Page files at ``/``: everything in ``filters/page`` except Python.

They are read once and sent from memory. Files read by threads per request left Python cycles behind, which this
process collects only occasionally: a client could make it grow.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.types import Receive, Scope, Send

from filters.service.ticks.tick_cache import conditions, matches

_HIDDEN = (".py", ".pyc", ".pyi")
_INDEX = "index.html"
#: No content from other origins, and no embedding in frames of other sites.
_HEADERS = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class PageFiles:
    """Files of a directory by path, with the page's security headers; Python files are excluded."""

    def __init__(self, directory: Path) -> None:
        self._found: dict[str, tuple[bytes, Response, Response]] = {}
        for path, file in _shown(directory):
            body = file.read_bytes()
            etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
            headers = {**_HEADERS, "etag": etag}
            whole = Response(body, 200, headers, mimetypes.guess_type(file.name)[0] or "application/octet-stream")
            self._found[path] = etag.encode(), whole, Response(None, 304, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send one file, or 304 if the client has it. Raises HTTPException (404, 405)."""
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        found = self._found.get(scope["path"])
        if found is None:
            raise HTTPException(404)
        etag, whole, unchanged = found
        none_match = conditions(scope)[0]
        known = none_match is not None and matches(none_match, etag)
        await (unchanged if known else whole)(scope, receive, send)


def _shown(directory: Path) -> Iterator[tuple[str, Path]]:
    """Public files with their paths; the index also has the path of the directory."""
    for file in sorted(directory.rglob("*")):
        parts = file.relative_to(directory).parts
        if not file.is_file() or file.suffix in _HIDDEN or any(part.startswith((".", "__")) for part in parts):
            continue
        yield f"/{'/'.join(parts)}", file
        if file.name == _INDEX:
            yield "/" + "".join(f"{part}/" for part in parts[:-1]), file


def page_routes(directory: Path | None = None) -> list[BaseRoute]:
    """The mount at ``/``, the last of all routes."""
    place = directory if directory is not None else Path(str(files("filters.page")))
    return [Mount("/", PageFiles(place), name="page")]
