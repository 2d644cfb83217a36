"""Live view of the demo: metrics raw and smoothed, processes, shards, books.

Pure functions from a snapshot to output: ``render`` makes a rich renderable for a
terminal that redraws, ``plain_lines`` makes lines for a pipe. ``History`` holds the values of
sparklines. Nothing here reads a clock, a shard or a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from demo_history import History
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from acquisition.model.metric import HOST_SET
from acquisition.shards.servers.status import ShardStatus
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.rows import Row, Selection, rows_of
from acquisition.snapshot.values.states import CURRENT
from acquisition.terminal import printable
from filters.text.quantities import ABSENT, quantity, seconds
from filters.text.states import state_style, validity

#: Metrics of most interest to a scheduler; ``render`` shows those of the host.
HOST_METRICS = (
    "cpu_user_ratio", "cpu_system_ratio", "cpu_iowait_ratio", "cpu_steal_ratio", "cpu_idle_ratio",
    "tasks_runnable", "context_switches_per_second", "memory_available_bytes", "swap_used_bytes",
    "block_in_bytes_per_second", "block_out_bytes_per_second", "network_receive_bytes_per_second",
    "network_transmit_bytes_per_second", "pressure_cpu_some_ratio",
)  # fmt: skip
BUSIEST_BY = "cpu_ratio"
_PROCESS_METRICS = ("cpu_ratio", "memory_resident_bytes")


class ShardLine(NamedTuple):
    """One shard; ``load``: use of its core (1.0 = all of it), None while unknown."""

    status: ShardStatus
    load: float | None


class Books(NamedTuple):
    """Counts of samples since the start: made = applied + pending + lost; None while unknown."""

    made: int | None = None
    applied: int | None = None
    invalid: int | None = None
    pending: int | None = None
    lost: int | None = None
    sources: tuple[str, ...] = ()
    without_value: int | None = None


def render(
    snapshot: Snapshot,
    shards: Sequence[ShardLine],
    books: Books,
    history: History | None = None,
    busiest: int = 8,
    note: str = "",
    metrics: Sequence[str] = HOST_METRICS,
    whole_name: Callable[[str, str], str] = lambda _, name: name,
) -> RenderableType:
    """The whole screen, for 80 columns or more: ``metrics`` and the ``busiest`` processes of each host, with as much of
    their names (``whole_name`` of pid and name) as fits; ``note`` is the last line."""
    parts: list[RenderableType] = [_title(snapshot)]
    for name in _hosts(snapshot):
        rows = [row for block in _host_blocks(snapshot, name) for row in _chosen(block, metrics)]
        if rows:
            parts += [Text(), _host(name, rows, history)]
        processes = busiest_processes(snapshot, name, busiest)
        if processes:
            parts += [Text(), _processes(processes, history, whole_name)]
    parts += [Text(), _shards(shards), Text(), _books(books)]
    if note:
        parts.append(Text(note, "dim"))
    return Group(*parts)


def plain_lines(snapshot: Snapshot, shards: Sequence[ShardLine], books: Books, busiest: int = 3) -> list[str]:
    """One tick as self-contained lines; the first word of each is its subject."""
    lines = []
    for block in snapshot.blocks:
        if block.resource_set == HOST_SET:
            lines += [_plain_host(block, row) for row in _chosen(block, HOST_METRICS)]
            lines += [_plain_process(*pair) for pair in busiest_processes(snapshot, block.host, busiest)]
    lines += [_plain_late(block) for block in snapshot.late]
    lines += [_plain_shard(shard) for shard in shards]
    lines.append(_books(books).plain)
    return lines


def busiest_processes(snapshot: Snapshot, host: str, count: int) -> list[tuple[Row, Row | None]]:
    """The rows (CPU, resident memory) of the processes and VMs with the highest smoothed CPU."""
    found: dict[str, dict[str, Row]] = {}
    selection = Selection.of((), (), (), _PROCESS_METRICS)
    blocks = [block for block in snapshot.blocks if block.host == host and block.resource_set != HOST_SET]
    for row in rows_of(blocks, selection):
        found.setdefault(row.id, {})[row.metric] = row
    busy = [rows for rows in found.values() if BUSIEST_BY in rows and rows[BUSIEST_BY].mean is not None]
    busy.sort(key=lambda rows: -(rows[BUSIEST_BY].mean or 0.0))
    return [(rows[BUSIEST_BY], rows.get("memory_resident_bytes")) for rows in busy[:count]]


def _host_blocks(snapshot: Snapshot, host: str) -> list[Block]:
    return [block for block in snapshot.blocks if block.host == host and block.resource_set == HOST_SET]


def _hosts(snapshot: Snapshot) -> list[str]:
    return list(dict.fromkeys(block.host for block in snapshot.blocks))


def _chosen(block: Block, metrics: Sequence[str]) -> list[Row]:
    rows = {row.metric: row for row in rows_of([block], Selection())}
    return [rows[name] for name in metrics if name in rows] or list(rows.values())


def _title(snapshot: Snapshot) -> Text:
    entities = sum(block.shape[0] for block in snapshot.blocks if block.has_values)
    hosts = len(_hosts(snapshot))
    ticks = [block.tick for block in snapshot.blocks if block.state == CURRENT]
    text = Text.assemble(
        ("shardpulse", "bold cyan"), f" · {snapshot.reading} · {hosts} host{'s' * (hosts != 1)}",
        f" · {entities} entities",
        f" · tick {max(ticks)}" if ticks else "",
    )  # fmt: skip
    for block in snapshot.late:
        text.append(f"\n{_state(block)}", state_style(block.state))
    for error in snapshot.errors:
        text.append(f"\n{printable(error)}", "red")
    return text


def _state(block: Block) -> str:
    return f"{printable(block.host)} {printable(block.resource_set)} {block.state}: {printable(block.reason)}"


def _grid(*columns: str, left: int) -> Table:
    """A table without lines; the first ``left`` columns are aligned left, and the first one, names, gets the remaining
    width."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim", expand=False)
    for i, name in enumerate(columns):
        table.add_column(_name(name), justify="left" if i < left else "right", no_wrap=i > 0)
    return table


def _name(text: str) -> Text:
    """A name on one line, with an ellipsis if it is cut."""
    return Text(printable(text), no_wrap=True, overflow="ellipsis")


def _host(host: str, rows: Sequence[Row], history: History | None) -> RenderableType:
    table = _grid(host, "raw", "smoothed", "± dev", left=1)
    table.add_column("", no_wrap=True)
    table.add_column("validity", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            _name(_short(row.metric)), *_figures(row), _spark(row, history), validity(row), seconds(row.age_seconds)
        )
    return table


def _processes(
    rows: Sequence[tuple[Row, Row | None]], history: History | None, whole_name: Callable[[str, str], str]
) -> RenderableType:
    table = _grid("busiest", "pid", left=1)
    for name in ("cpu raw", "smoothed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("memory", justify="right", no_wrap=True)
    table.add_column("validity", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    for cpu, memory in rows:
        table.add_row(
            _name(whole_name(_pid(cpu), cpu.entity)), Text(_pid(cpu)),
            quantity(cpu.last, cpu.unit), Text(quantity(cpu.mean, cpu.unit), "bold"), _spark(cpu, history),
            quantity(memory.mean, memory.unit) if memory else ABSENT, validity(cpu), seconds(cpu.age_seconds),
        )  # fmt: skip
    return table


def _shards(shards: Sequence[ShardLine]) -> RenderableType:
    table = _grid("shard", "core", left=2)
    for name in ("load", "memory", "of", "frames"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in shards:
        shard = line.status
        core, load, memory, limit = _shard_cells(line)
        style = "red" if shard.problem or not shard.pinned else ""
        table.add_row(_name(shard.address), Text(core, style), load, memory, limit, shard.problem or str(shard.frames))
    return table


def _shard_cells(line: ShardLine) -> tuple[str, str, str, str]:
    shard = line.status
    core = f"{shard.core} {'pinned' if shard.pinned else 'NOT PINNED'}"
    load = ABSENT if line.load is None else f"{line.load * 100:.1f}%"
    limit = quantity(shard.memory_limit_bytes, "bytes") if shard.memory_limit_bytes else ABSENT
    memory = quantity(shard.memory_bytes, "bytes") if shard.memory_bytes else ABSENT
    return core, load, memory, limit


def _books(books: Books) -> Text:
    style = "bold red" if books.lost else "bold green" if books.lost == 0 else ""
    text = Text.assemble("samples lost ", (_thousands(books.lost), style))
    for name in ("made", "applied", "pending", "invalid", "without_value"):
        text.append(f" · {name.replace('_', ' ')} {_thousands(getattr(books, name))}")
    if books.sources:
        text.append(f"\nsources · {printable(', '.join(books.sources))}")
    return text


def _thousands(count: int | None) -> str:
    return ABSENT if count is None else format(count, ",")


def _figures(row: Row) -> tuple[str, Text, str]:
    return quantity(row.last, row.unit), Text(quantity(row.mean, row.unit), "bold"), quantity(row.deviation, row.unit)


def _spark(row: Row, history: History | None) -> Text:
    return Text(history.sparkline(row) if history is not None else "", "cyan")


def _pid(row: Row) -> str:
    return printable(row.stable.rpartition(":")[2])[:8]


def _short(metric: str) -> str:
    """Name without its unit, which is shown with the value."""
    return metric.removesuffix("_per_second").removesuffix("_bytes").removesuffix("_ratio")


def _plain_host(block: Block, row: Row) -> str:
    return f"host {printable(block.host)} tick {row.tick} {row.metric} {_plain(row)}"


def _plain_process(cpu: Row, memory: Row | None) -> str:
    resident = quantity(memory.mean, memory.unit) if memory else ABSENT
    return f"{cpu.kind or 'entity'} {printable(cpu.entity)} {_pid(cpu)} {cpu.metric} {_plain(cpu)} memory {resident}"


def _plain(row: Row) -> str:
    raw, mean = quantity(row.last, row.unit), quantity(row.mean, row.unit)
    return f"raw {raw} smoothed {mean} {validity(row).plain} age {seconds(row.age_seconds)}"


def _plain_late(block: Block) -> str:
    return f"{block.state} {printable(block.host)} {printable(block.resource_set)}: {printable(block.reason)}"


def _plain_shard(line: ShardLine) -> str:
    shard = line.status
    core, load, memory, limit = _shard_cells(line)
    end = f" {shard.problem}" if shard.problem else f" frames {shard.frames}"
    return f"shard {shard.address} core {core} load {load} memory {memory} of {limit}{end}"
