"""Resources of the service, each in one file with one registration here."""

from __future__ import annotations

from acquisition import plugins
from filters.service.interface import openapi
from filters.service.interface.resource import Declare, Parts, Resource
from filters.service.resources import (
    entities,
    figures,
    heat,
    hosts,
    hot,
    metrics,
    migrations,
    moves,
    place,
    snapshot,
    status,
    stream,
    vms,
)

REGISTRY: dict[str, Declare] = {
    "hot": hot.declare,
    "moves": moves.declare,
    "place": place.declare,
    "migrations": migrations.declare,
    "hosts": hosts.declare,
    "vms": vms.declare,
    "entities": entities.declare,
    "snapshot": snapshot.declare,
    "figures": figures.declare,
    "heat": heat.declare,
    "status": status.declare,
    "metrics": metrics.declare,
}


def declared(parts: Parts) -> tuple[Resource, ...]:
    """All resources: those of the registry and of other packages (entry point group ``shardpulse.resources``), and the
    two that describe the others. Raises ConfigError."""
    known: dict[str, Declare] = plugins.registered(plugins.RESOURCES, REGISTRY)
    found = [resource for declare in known.values() for resource in declare(parts)]
    found.append(stream.of(found, parts))
    return (*found, openapi.description(found, parts))


__all__ = ["REGISTRY", "declared"]
