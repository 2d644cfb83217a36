"""Benchmarks and experiments of the whole pipeline, each one program.

``python -m experiments`` lists them.

Programs share rooms and never import one another; a room imports only those before it: ``processes`` (start, control
and end of children, requirements of programs), ``testbed`` (hosts in network namespaces), ``hosts`` (hosts with
systemd, and the playbooks on them), ``emulation`` (hosts that send seeded samples: identities, sampling times, one
fleet that serves them), ``simulation`` (simulated time: guests waiting on hosts, their samples through the product's
own filter step), ``harness`` (the pipeline under test, one measured run, sample counts, verification, outcome). Nothing
in the product imports this package. Raw results are in ``experiments/results``.
"""

from acquisition import extras

extras.explain()
