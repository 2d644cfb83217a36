"""The product's filter as a child of the benchmark: as it is, or one of several that share the partitions.

    python -m experiments.filter_process CONFIG SHARDS PART OF

PART of OF takes its stripe of the partitions, 0 of 1 all of them: that is ``shardpulse filter``.
"""

from __future__ import annotations

import signal
import sys

from acquisition.config.loader import load
from acquisition.link import endpoints
from acquisition.link.cluster import read_layout
from filters import filter_command
from filters.allocator import keep_freed_memory
from filters.worker import Worker


def main(argv: list[str]) -> int:
    """Smooth until SIGTERM."""
    config, shards, part, of = argv[0], argv[1], int(argv[2]), int(argv[3])
    if of == 1:
        return filter_command.main(["--config", config, "--shards", shards])
    keep_freed_memory()
    settings = load(config)
    cluster = endpoints.connect(endpoints.with_addresses(settings.shards, shards))
    layout = read_layout(cluster)
    stripe = range(layout.partitions * part // of, layout.partitions * (part + 1) // of)
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    Worker(cluster, layout, filter_command.filter_settings(settings, layout.keep_ticks), stripe).run(lambda: stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
