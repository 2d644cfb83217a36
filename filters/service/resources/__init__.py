"""The resources of the service, each declared in one file with one registration here."""

from __future__ import annotations

from filters.service.resource import Declare, Parts, Resource
from filters.service.resources import (
    description,
    entities,
    figures,
    heat,
    hosts,
    hot,
    metrics,
    migrations,
    moves,
    snapshot,
    status,
    stream,
)

REGISTRY: dict[str, Declare] = {
    "hot": hot.declare,
    "moves": moves.declare,
    "migrations": migrations.declare,
    "hosts": hosts.declare,
    "entities": entities.declare,
    "snapshot": snapshot.declare,
    "figures": figures.declare,
    "heat": heat.declare,
    "status": status.declare,
    "metrics": metrics.declare,
}


def declared(parts: Parts) -> tuple[Resource, ...]:
    """All resources: those of the registry, and the two that tell of the others. Raises ConfigError."""
    found = [resource for declare in REGISTRY.values() for resource in declare(parts)]
    found.append(stream.of(found, parts))
    return (*found, description.of(found, parts))


__all__ = ["REGISTRY", "declared"]
