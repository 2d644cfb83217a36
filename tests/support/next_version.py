"""Next version of shardpulse: newest record versions raised by one.

Run as ``python -m tests.support.next_version COMMAND ...``. Nothing else may be imported before ``raise_versions``.
"""

from __future__ import annotations

import sys

from acquisition.wire.records import record_format
from acquisition.wire.records.record_format import FORMATS, NEWEST, Versions


def raise_versions() -> None:
    """Know the newest format of today, and one in which every record has the next version."""
    today = FORMATS[NEWEST]
    record_format.FORMATS = {NEWEST: today, NEWEST + 1: Versions(*(version + 1 for version in today))}
    record_format.NEWEST = NEWEST + 1


if __name__ == "__main__":
    raise_versions()
    from acquisition.cli import main

    sys.exit(main())
