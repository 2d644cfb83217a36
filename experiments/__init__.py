"""Benchmarks and experiments of the whole pipeline, each one program.

``python -m experiments`` lists them.

Programs share rooms and never import one another; a room imports only those before it:
``processes`` (how programs start, command and end children, what they need), ``testbed`` (hosts in network
namespaces), ``hosts`` (hosts with systemd, and the playbooks on them), ``emulation`` (hosts that send seeded samples:
who they are, when they sample, one fleet that serves them), ``simulation`` (simulated time: guests that wait on hosts,
and their samples through the product's own filter step),
``harness`` (the pipeline under test, one measured run, books, verification, outcome).
Nothing in the product imports this package. Raw results lie in ``experiments/results``.
"""

from acquisition import extras

extras.explain()
