"""Truth table rows: faults, affected hosts, and answers of every system.

Each fault affects a pair of hosts with their VMs, one busy and one idle; the store's affects all hosts. Five seconds
after a fault has begun the two change roles, so that no system is right by repeating the last value; the row ``calm``
shows what the change alone costs each system. Every system is queried once a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from experiments.beside.answers import HOT, LOADED, NOTHING, Answer, called, is_wrong
from experiments.beside.hosts import Host
from experiments.beside.probe import STEP_SECONDS
from experiments.beside.script import BUSY, DEAD, IDLE, Move, Plan, swapped
from experiments.beside.world import World

SWITCH_SECONDS = 5.0  #: from the beginning of a fault to the change of roles
_RESTART_SECONDS = 2.0
_JUMP_SECONDS = 3600.0

LETTERS = {HOT: "h", IDLE: "i", LOADED: "l", NOTHING: "-"}
_WRONG = {(true[0], letter) for true in (BUSY, IDLE, DEAD) for what, letter in LETTERS.items() if is_wrong(true, what)}

Pair = tuple[int, int]
Act = Callable[[World, Pair], None]


def _nothing(_world: World, _pair: Pair) -> None:
    """Leave everything as it is."""


class Fault(NamedTuple):
    """``begin`` and ``end`` break and repair; it ends after ``lasts`` seconds, or, if that is 0, after this ``part`` of
    its row. ``swaps``: the pair changes roles; ``dead``: its hosts are; ``everywhere``: it affects all hosts."""

    name: str
    title: str
    begin: Act = _nothing
    end: Act = _nothing
    part: float = 1.0
    lasts: float = 0.0
    swaps: bool = True
    dead: bool = False
    everywhere: bool = False


class Row(NamedTuple):
    """A letter for each second with a query: the true state, by host or VM (the name in ``script``), and the answers,
    by system and host or VM (``LETTERS``)."""

    truth: dict[str, str]
    called: dict[str, dict[str, str]]


class Count(NamedTuple):
    """Answers of one system during a fault."""

    asked: int
    wrong: int
    nothing: int


def _each(act: Callable[[Host], None]) -> Act:
    def both(world: World, pair: Pair) -> None:
        for number in pair:
            act(world.hosts[number])

    return both


def _order(**order: Any) -> Act:
    def both(world: World, pair: Pair) -> None:
        for number in pair:
            world.trees.send({**order, "host": number})

    return both


def _step(seconds: float) -> Act:
    def both(world: World, pair: Pair) -> None:
        _order(do="clock", seconds=seconds)(world, pair)
        _each(Host.step_clock)(world, pair)

    return both


def _migrate(world: World, pair: Pair) -> None:
    """Move the VM of the busy host to the other one, which already has a VM of its own."""
    now = time.time()
    source = next(number for number in pair if world.stage.host_is(number, now) == BUSY)
    destination = next(number for number in pair if number != source)
    world.trees.send({"do": "incoming", "host": destination, "vm": source})
    world.plan(Plan((), (Move(now + SWITCH_SECONDS, source, source, destination),)))


def _kill_stores(world: World, _pair: Pair) -> None:
    for server in world.servers:
        server.stop()
    for node in world.cluster.nodes:
        node.kill()


def _start_stores(world: World, _pair: Pair) -> None:
    for server in world.servers:
        server.start()
    for node in world.cluster.nodes:
        node.start()


#: In this order pairs have time to settle: five-minute averages take that long. A pair with dead hosts or a moved VM is
#: not used again.
FAULTS = (
    Fault("calm", "nothing is wrong"),
    Fault("hung", "exporter hung (SIGSTOP)", _each(Host.freeze), _each(Host.thaw)),
    Fault("missing", "one figure missing", _order(do="blind", on=True), _order(do="blind", on=False)),
    Fault("clock", "clock stepped by an hour", _step(STEP_SECONDS), _step(0.0)),
    Fault("cut", "network cut", _each(Host.cut), _each(Host.heal), part=0.5),
    Fault("store", "store restarted", _kill_stores, _start_stores, lasts=_RESTART_SECONDS, everywhere=True),
    Fault("jump", "counter jump", _order(do="jump", seconds=_JUMP_SECONDS)),
    Fault("dead", "host dead", _each(Host.power_off), _each(Host.power_on), swaps=False, dead=True),
    Fault("migrated", "VM migrated", _migrate, swaps=False),
)


def run(world: World, fault: Fault, pair: Pair, seconds: int) -> Row:
    """Break, query once a second for ``seconds``, and repair."""
    began = time.time()
    fault.begin(world, pair)
    if fault.swaps:
        world.plan(swapped(world.stage, pair, began + SWITCH_SECONDS))
    ends, ended = fault.lasts or fault.part * seconds, False
    row = Row({}, {})
    second = 0
    while second < seconds:
        time.sleep(max(0.0, began + second - time.time()))
        if not ended and second >= ends:
            fault.end(world, pair)
            ended = True
        truth = truth_of(world, range(len(world.hosts)) if fault.everywhere else pair, fault.dead, time.time())
        for name, true in truth.items():
            row.truth[name] = row.truth.get(name, "") + true[0]
        for system, answers in world.ask().items():
            letters = row.called.setdefault(system, {})
            for name in truth:
                letters[name] = letters.get(name, "") + LETTERS[called(answers.get(name, Answer()))]
        second = max(second + 1, int(time.time() - began))  # missed seconds are not made up for
    if not ended:
        fault.end(world, pair)
    return row


def truth_of(world: World, hosts: Iterable[int], dead: bool, at: float) -> dict[str, str]:
    """True states of hosts and their VMs at a moment."""
    stage = world.stage
    found = {}
    for number in hosts:
        found[f"host-{number}"] = DEAD if dead else stage.host_is(number, at)
        found[f"vm-{number}"] = DEAD if dead else stage.vm_is(number, at)
    return found


def count(truth: dict[str, str], letters: dict[str, str]) -> Count:
    """Letters of one system, counted. Pure."""
    pairs = [pair for name, true in truth.items() for pair in zip(true, letters[name], strict=True)]
    return Count(len(pairs), sum(pair in _WRONG for pair in pairs), sum(said == LETTERS[NOTHING] for _, said in pairs))
