"""What a server says of itself when somebody logs in over TLS: an old one is refused in words, nonsense ends nobody."""

from __future__ import annotations

from typing import Any

import pytest

from acquisition.errors import ConfigError, ShardError
from acquisition.link.trust import admission


def greeted(version: Any) -> list[Any]:
    """The answer to HELLO 2 (Redis documentation): names and values in turn."""
    return [b"server", b"redis", b"version", version, b"proto", 2, b"id", 7, b"modules", []]


@pytest.mark.parametrize("reply", [b"OK", greeted(b"7.0.15"), greeted(b"8.2.1"), greeted(b"10.0")])
def test_a_new_server_and_one_without_tls_are_taken(reply: Any) -> None:
    admission.check_greeted(reply, "here:1")


def test_a_server_that_is_too_old_is_refused() -> None:
    with pytest.raises(ConfigError, match="shard here:1 is Redis 6\\.2\\.14: TLS requires 7\\.0 or newer"):
        admission.check_greeted(greeted(b"6.2.14"), "here:1")


@pytest.mark.parametrize(
    "reply", [[], [b"version"], greeted(b"new"), greeted(b""), greeted(7), greeted(b"\xff"), [[], {}]]
)
def test_a_server_that_does_not_say_of_which_version_it_is(reply: Any) -> None:
    with pytest.raises(ShardError, match="shard here:1 reports no version"):
        admission.check_greeted(reply, "here:1")
