"""Baseline: the paper's prototype, with MariaDB in place of MySQL 5.1.

Its programs are in ``prototype``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from acquisition.shards.servers import machine
from experiments.paper.figure import BASELINE
from experiments.paper.systems import DATABASE, FILTER, PROBE, Load, System, require_memory, until
from experiments.processes.control import group
from experiments.processes.needs import found, package, tool
from experiments.processes.postgresql import become

_PROGRAM = Path(__file__).with_name("prototype.py")
_SPARE = 50  #: connections in addition to those of probes
_BYTES_EACH = 20e6  #: of a probe with its vmstat and its thread of the server, shared memory counted once
_START_SECONDS = 60.0  #: plus one for each probe, which takes a tenth of a second of CPU time


#: The core package starts no service.
NEEDS = (
    tool("mariadbd", "mariadb-server-core"),
    tool("vmstat", "procps"),
    tool("taskset", "util-linux"),
    package("PyMySQL", "pymysql"),
)


@contextmanager
def running(load: Load, directory: Path) -> Iterator[System]:
    """``load.hosts`` x ``load.sets`` probes, all on this machine, one database on a core of its own, one analysis.
    Raises NoRoom, UnavailableError, CannotCreateError."""
    import pymysql

    from experiments.paper.prototype import RANGES, connect

    count = load.hosts * load.sets
    require_memory(count * _BYTES_EACH)
    with ExitStack() as stack:
        port, start = machine.free_ports(1)[0], [sys.executable, "-I", str(_PROGRAM)]
        database = stack.enter_context(group(_server(port, count, list(RANGES)[: load.metrics], directory)))

        def ask(query: str) -> float:
            with connect(port) as connection, connection.cursor() as cursor:
                cursor.execute(query)
                return float((cursor.fetchone() or [0])[-1])

        def prepared() -> bool:
            with suppress(pymysql.err.OperationalError):
                return ask("SELECT COUNT(*) FROM smoothed") == 0
            return False

        def all_connected() -> bool:
            return ask("SHOW STATUS LIKE 'Threads_connected'") >= count + 2

        until(prepared, _START_SECONDS, "mariadbd did not start", database, directory / "log")
        analysis = stack.enter_context(group([*start, "analysis", str(port), str(load.metrics)]))
        probes = [
            stack.enter_context(group([*start, "probe", *map(str, (port, host, module, load.metrics))]))
            for host in range(load.hosts)
            for module in range(load.sets)
        ]
        until(
            all_connected, _START_SECONDS + count, f"not all of {count} probes connected", database, directory / "log"
        )
        roles = {PROBE: [probe.pid for probe in probes], DATABASE: [database.pid], FILTER: [analysis.pid]}
        yield System(BASELINE, roles, lambda: ask("SELECT COUNT(*) FROM samples") * load.metrics)


def _server(port: int, probes: int, names: list[str], directory: Path) -> list[str]:
    """The command of a server on loopback with a data directory of its own, two MEMORY tables and no users."""
    columns = ",".join(f"{name} DOUBLE" for name in names)
    data, tables = directory / "data", directory / "tables.sql"
    (data / "monitoring").mkdir(parents=True)
    tables.write_text(
        "CREATE TABLE monitoring.samples (id BIGINT AUTO_INCREMENT, host INT, module INT, at DOUBLE, invalid INT, "
        f"{columns}, PRIMARY KEY (id) USING BTREE);\n"
        f"CREATE TABLE monitoring.smoothed (host INT, module INT, {columns}, PRIMARY KEY (host, module));\n"
    )
    user = become(directory)  # it refuses root
    for path in (data, data / "monitoring"):
        shutil.chown(path, directory.stat().st_uid, directory.stat().st_gid)
    return [
        "taskset", "-c", str(machine.cores()[0]), *user, str(found("mariadbd")), "--no-defaults",
        f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1", f"--socket={directory}/socket",
        f"--pid-file={directory}/pid", f"--secure-file-priv={data}", f"--init-file={tables}", "--skip-grant-tables",
        "--skip-innodb", "--default-storage-engine=MEMORY", "--max-heap-table-size=2G", "--log-warnings=0",
        f"--log-error={directory}/log", f"--max-connections={probes + _SPARE}",
    ]  # fmt: skip
