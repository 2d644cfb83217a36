"""``/v1/place``: hosts for a new VM, and why others do not take it."""

from __future__ import annotations

from threading import Lock

from filters.decisions.place import Wanted, label_of
from filters.documents.encoding import encode_long
from filters.documents.placing import PlacesDocument, places_document
from filters.service.http.parameters import HOST, LABEL, LIMIT, Parameter
from filters.service.interface.resource import Parts, Request, Resource, decided_of, hosts_of
from filters.service.ticks.tick_cache import TickCache

VCPUS = Parameter("vcpus", "vCPUs of the new VM", most=4096, required=True)
MEMORY = Parameter("memory", "memory of the new VM in bytes", most=1 << 50, required=True)
USE = Parameter(
    "use", "percent of its vCPUs that it is expected to use (default: [decisions.policy] new_vm_cpu)", most=100
)
NETWORK = Parameter("network", "bytes per second that it is expected to send or receive", most=10**12)
VM_LABEL = Parameter("vm_label", "labels of the new VM: NAME=VALUE, or NAME for true", labels=True)


def declare(parts: Parts) -> tuple[Resource, ...]:
    """``host`` and ``label`` select the hosts to consider."""
    lock = Lock()  # readings are created on access, in one thread at a time

    def build(cache: TickCache, request: Request) -> bytes:
        decided, hosts = decided_of(cache), hosts_of(cache, request, parts.labels)
        with lock:
            document = places_document(decided, wanted(request), hosts, request.number(LIMIT), cache.number)
        return encode_long(document, "places", "refused")

    return (
        Resource(
            "/v1/place",
            "place",
            "Hosts for a new VM, the best first, with reasons, and rejected hosts",
            PlacesDocument,
            build,
            parameters=(VCPUS, MEMORY, USE, NETWORK, VM_LABEL, HOST, LABEL, LIMIT),
        ),
    )


def wanted(request: Request) -> Wanted:
    """The VM that a request describes."""
    labels = dict(map(label_of, request.values.get(VM_LABEL.name, ())))
    use, network = (request.number(one) if one.name in request.values else None for one in (USE, NETWORK))
    return Wanted(request.number(VCPUS), request.number(MEMORY), labels, None if use is None else use / 100, network)
