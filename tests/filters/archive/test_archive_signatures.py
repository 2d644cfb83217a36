"""An archiver that verifies takes what hosts have signed, and leaves the rest to the filter."""

from __future__ import annotations

import pytest

from acquisition.wire import frame, keys, signature
from acquisition.wire.frame import Frame
from acquisition.wire.signature import Verifier
from filters.archive.following.partition import Partition, Rules

MASTER, HOST = bytes(range(32)), 7 * keys.DEFAULT_PARTITIONS
NEIGHBOUR = HOST + keys.DEFAULT_PARTITIONS
NOW = 1_700_000_000


def made(sequence: int, host: int = HOST) -> bytes:
    return frame.encode(
        Frame(
            frame.KIND_SAMPLES, 1, host, 3, 1, 2, 1.0, 7, sequence, 1, 2 * (sequence - 1), NOW + sequence,
            NOW + sequence, sequence, bytes(8), bytes(8),
        )
    )  # fmt: skip


def entry(sequence: int, data: bytes, signer: int | None) -> tuple[bytes, list[bytes]]:
    signed = [] if signer is None else [b"s", signature.sign(signature.host_key(MASTER, signer), data)]
    return b"%d-0" % (1000 * (NOW + sequence)), [b"f", data, *signed]


@pytest.mark.parametrize(("verifier", "samples"), [(Verifier([MASTER]), 4), (None, 8), (Verifier([MASTER], False), 6)])
def test_only_what_its_host_has_signed_is_archived(verifier: Verifier | None, samples: int) -> None:
    partition = Partition(0, keys.DEFAULT_PARTITIONS, Rules(), verifier=verifier)
    taken = partition.take(
        [
            entry(1, made(1), HOST),
            entry(2, made(2), HOST),
            entry(3, made(3), NEIGHBOUR),
            entry(4, made(1, NEIGHBOUR), None),
        ]
    )
    assert taken == samples
    counts = partition.counts
    assert (counts.open, counts.gap) == (samples, 0)
