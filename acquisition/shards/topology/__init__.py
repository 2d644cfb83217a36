"""Topology of the cluster: members, joining, moves of slots and replicas."""
