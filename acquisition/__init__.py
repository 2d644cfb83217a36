"""Acquisition subsystem: frames, shards, partitions, writer, reader, snapshot.

Import direction (held by a test): ``acquisition`` imports no sibling package;
``probes`` and ``filters`` import only ``acquisition``; nothing imports ``deploy``
or ``experiments``.

Modules in the probe's import closure use ``typing.NamedTuple`` for values and never import
dataclasses, argparse, logging, msgspec or numpy: each of these costs a megabyte or more in
every probe of the data center (docs/decisions/0004; tests/probes holds the closure).
"""

__version__ = "0.1.0"
