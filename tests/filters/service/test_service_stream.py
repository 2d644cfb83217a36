"""The stream's hub: bounded queues, what is kept, what is sent to whom comes back."""

from __future__ import annotations

import asyncio

import pytest

from filters.service.http.protocol import ABORT
from filters.service.resources.stream import StreamEndpoint, last_event_id
from filters.service.ticks.stream import RETRY, Events, Hub, event
from filters.service.ticks.tick_cache import NewestCache
from tests.support.processes import slept


def events(number: int, size: int = 0) -> Events:
    texts = {name: event(name, b"%d" % number + b" " * size, number) for name in ("tick", "hot")}
    return Events(number, texts)


def numbers(pieces: list[bytes]) -> list[int]:
    return [int(line[4:]) for line in b"".join(pieces).split(b"\n") if line.startswith(b"id: ")]


def test_a_listener_gets_its_topics_and_the_newest_at_once() -> None:
    hub = Hub(10, 5)
    hub.tell(events(1))
    listener = hub.join(("hot",), None)
    hub.tell(events(2))
    assert list(listener.queue) == [RETRY + event("hot", b"1", 1), event("hot", b"2", 2)]
    assert hub.topics == {"hot"}
    hub.leave(listener)
    assert (hub.topics, len(hub)) == (frozenset(), 0)


def test_what_is_told_between_ticks_is_not_kept() -> None:
    hub = Hub(10, 5)
    hub.tell(events(1))
    hot, tick = hub.join(("hot",), 1), hub.join(("tick",), 1)
    hub.tell_one("hot", event("hot", b"other", 1))
    assert list(hot.queue) == [RETRY, event("hot", b"other", 1)]
    assert list(tick.queue) == [RETRY]
    assert list(hub.join(("hot",), None).queue) == [RETRY + event("hot", b"1", 1)]


def test_who_comes_back_gets_what_is_kept_and_is_told_of_a_gap() -> None:
    hub = Hub(10, 5)
    for number in range(1, 301):
        hub.tell(events(number))
    assert numbers(list(hub.join(("tick",), 298).queue)) == [299, 300]
    assert numbers(list(hub.join(("tick",), 300).queue)) == []
    long_ago = b"".join(hub.join(("tick",), 5).queue)
    assert b"event: gap" in long_ago
    assert numbers([long_ago]) == list(range(181, 301))
    other_clock = b"".join(hub.join(("tick",), 10_000).queue)
    assert b"event: gap" in other_clock
    assert numbers([other_clock]) == [300]


def test_large_events_are_kept_for_less_long() -> None:
    hub = Hub(10, 5)
    for number in range(50):
        hub.tell(events(number, 1 << 20))
    assert 10 <= len(numbers(list(hub.join(("tick",), 0).queue))) <= 17


def test_a_full_queue_ends_its_listener_alone() -> None:
    hub = Hub(10, 3)
    slow, quick = hub.join(("tick",), None), hub.join(("tick",), None)
    for number in range(5):
        hub.tell(events(number))
        quick.queue.clear()
    assert (slow.ended, quick.ended) == ("slow", "")
    assert len(slow.queue) <= 3
    hub.leave(slow)
    assert hub.slow == 1


def test_a_client_that_does_not_read_is_cut_off() -> None:
    async def scenario() -> tuple[bool, int, float]:
        hub, aborted, gone = Hub(10, 3), asyncio.Event(), asyncio.Event()

        async def send(message: dict) -> None:
            if message["type"] == "http.response.body":
                await gone.wait()  # the client's buffers are full

        async def receive() -> dict:
            await gone.wait()
            return {"type": "http.disconnect"}

        def abort() -> None:
            aborted.set()
            gone.set()

        scope = {
            "type": "http",
            "method": "GET",
            "query_string": b"",
            "headers": [],
            "extensions": {ABORT: {"abort": abort}},
        }
        client = asyncio.create_task(StreamEndpoint(hub, NewestCache(5))({}, scope, receive, send))
        for number in range(20):
            await asyncio.sleep(0)
            hub.tell(events(number))
        began = slept()
        await asyncio.wait_for(client, 5)
        return aborted.is_set(), hub.slow, slept() - began

    aborted, slow, seconds = asyncio.run(scenario())
    assert (aborted, slow) == (True, 1)
    assert seconds < 1


def test_closing_sends_what_is_queued_and_ends() -> None:
    async def scenario() -> list[bytes]:
        hub, sent = Hub(10, 3), []

        async def send(message: dict) -> None:
            sent.append(message.get("body", b""))

        async def receive() -> dict:
            await asyncio.Event().wait()
            return {}

        scope = {"type": "http", "method": "GET", "headers": []}
        client = asyncio.create_task(StreamEndpoint(hub, NewestCache(5))({"topic": ("hot",)}, scope, receive, send))
        await asyncio.sleep(0.01)
        hub.tell(events(1))
        hub.close()
        await asyncio.wait_for(client, 5)
        return sent

    sent = asyncio.run(scenario())
    assert event("hot", b"1", 1) in sent
    assert sent[-1] == b""


@pytest.mark.parametrize("value", [b"x", b"-1", b"1.5", b"9" * 40, "١".encode()])
def test_last_event_ids_that_are_none(value: bytes) -> None:
    from filters.service.http.problem import Problem

    with pytest.raises(Problem):
        last_event_id({"headers": [(b"last-event-id", value)]})
    assert last_event_id({"headers": [(b"last-event-id", b"17")]}) == 17
    assert last_event_id({"headers": [(b"last-event-id", b"")]}) is None
