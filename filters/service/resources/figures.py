"""``/v1/figures``: figures kept of every sample."""

from __future__ import annotations

from filters.documents.encoding import encode
from filters.documents.planes import FiguresDocument, figures_document
from filters.service.interface.resource import Parts, Resource


def declare(_: Parts) -> tuple[Resource, ...]:
    """It depends only on the kernels."""
    return (
        Resource(
            "/v1/figures",
            "figures",
            "Figures kept of every sample, with units",
            FiguresDocument,
            lambda _cache, _request: encode(figures_document()),
        ),
    )
