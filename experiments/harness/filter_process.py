"""The product's filter as a child of the benchmark; several of them share the partitions by leases.

    python -m experiments.harness.filter_process CONFIG SHARDS

That is ``shardpulse filter``, importable by ``experiments.processes.profiler``.
"""

from __future__ import annotations

import sys

from filters.worker import command


def main(argv: list[str]) -> int:
    """Smooth until SIGTERM."""
    config, shards = argv[:2]
    return command.main(["--config", config, "--shards", shards])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
