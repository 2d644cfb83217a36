"""The page's static files at ``/``: whatever lies in ``filters/page`` and is no Python."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_HIDDEN = (".py", ".pyc", ".pyi")
#: Nothing from elsewhere, and in nobody else's frame.
_HEADERS = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class PageFiles(StaticFiles):
    """Static files with the page's security headers; Python files are not there."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """One file. Raises HTTPException (404, 405)."""
        if path.endswith(_HIDDEN) or any(part.startswith((".", "__")) for part in path.split("/") if part != "."):
            raise HTTPException(404)
        try:
            response = await super().get_response(path, scope)
        except (ValueError, OSError) as error:  # a NUL, or a name that is too long
            raise HTTPException(404) from error
        response.headers.update(_HEADERS)
        return response


def page_routes(directory: Path | None = None) -> list[BaseRoute]:
    """The mount at ``/``, the last of all routes."""
    place = directory if directory is not None else Path(str(files("filters.page")))
    return [Mount("/", PageFiles(directory=os.fspath(place), html=True), name="page")]
