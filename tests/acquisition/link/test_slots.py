"""What shards say of each other: stripes of slots and redirections, also without a host, and what is neither."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.link.routing import Stripe, parse_slots, redirection

ASKED = Address("10.0.0.1", 7600)


@pytest.mark.parametrize(
    ("host", "found"), [(b"10.0.0.2", "10.0.0.2"), (b"", "10.0.0.1"), (None, "10.0.0.1"), (b"?", "10.0.0.1")]
)
def test_a_shard_without_a_host_is_where_the_one_is_that_was_asked(host: bytes | None, found: str) -> None:
    rows = [[5462, 16383, [host, 7601, b"id", []], [b"replica", 1, b"id"]], [0, 5461, [b"10.0.0.3", 7602]]]
    assert parse_slots(rows, ASKED) == [
        Stripe(0, 5461, Address("10.0.0.3", 7602)), Stripe(5462, 16383, Address(found, 7601)),
    ]  # fmt: skip


def test_a_real_reply_names_the_masters(cluster: Cluster) -> None:
    first = cluster.masters()[0]
    connection = cluster.connect(first)
    stripes = parse_slots(connection.call("CLUSTER", "SLOTS"), first)
    connection.close()
    assert [stripe.owner for stripe in stripes] == cluster.masters()
    assert (stripes[0].low, stripes[-1].high) == (0, 16383)


replies = st.recursive(
    st.none() | st.integers() | st.binary(max_size=5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@given(replies)
def test_what_is_no_such_reply(reply: Any) -> None:
    with contextlib.suppress(ShardError):  # nothing else
        assert isinstance(parse_slots(reply, ASKED), list)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3999 10.0.0.2:7601", Address("10.0.0.2", 7601)),
        ("3999 :7601", Address("10.0.0.1", 7601)),
        ("3999 ?:7601", Address("10.0.0.1", 7601)),
        ("3999 ::1:7601", Address("::1", 7601)),
        ("3999 shard.example:7601", Address("shard.example", 7601)),
        *((text, None) for text in ("", "3999", "3999 host", "3999 host:0", "3999 host:65536", "3999 host:²")),
    ],
)
def test_where_a_redirection_leads(text: str, found: Address | None) -> None:
    assert redirection(text, ASKED) == found
