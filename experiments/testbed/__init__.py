"""Testbed on one machine: namespaces, shards with replicas, link faults.

    from experiments import testbed

    reason = testbed.missing_for_shards()         # "" or why it is not possible here and what to do
    with testbed.Testbed(hosts=3) as bed:
        with testbed.start_cluster(bed, directory, masters=3, replicas=1) as cluster:
            cluster.kill(cluster.masters()[0])
            fault = bed.hosts[1].link.cut()
            fault.heal()

Shards speak TLS 1.3 only and every part logs in as its own user (experiments.processes.access). Needs root, ``ip``
(iproute2) and a redis-server 7 with TLS; everything else is detected at run time. The namespaces have no names and
every process in them is tied to this one: when it ends, in whatever way, the kernel removes all of it, and a dead run
leaves nothing to clean up.
"""

from experiments.testbed.capability import missing, missing_for_shards
from experiments.testbed.cluster import NODE_TIMEOUT, ReplicatedCluster, outsider, start_cluster
from experiments.testbed.link import Fault, Link
from experiments.testbed.network import Host, Testbed
from experiments.testbed.node import Node

__all__ = [
    "NODE_TIMEOUT",
    "Fault",
    "Host",
    "Link",
    "Node",
    "ReplicatedCluster",
    "Testbed",
    "missing",
    "missing_for_shards",
    "outsider",
    "start_cluster",
]
