"""Chaos run: the pipeline under random faults, judged sample by sample.

    python -m experiments.chaos --seconds 300 --seed 7

::

    schedule ──▶ run ──▶ faults ──▶ installation: shards and replicas, filter workers, generators
                  │                            │
                  │                            └─▶ generators log every frame before they offer it
                  └─▶ observer (freshness)     ┌── host_log
    report ◀── referee ◀── reference ◀─────────┘

``schedule`` is a pure function of the seed. ``referee`` compares, entity by entity, the final state of the shards with
the one that ``reference`` computes from the logs, and reconciles the counts.
"""
