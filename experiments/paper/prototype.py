"""Prototype of the paper (sections 2.2, 2.3): probe and short-term analysis.

``baseline`` starts it by path.

``python prototype.py probe PORT HOST MODULE METRICS`` and ``python prototype.py analysis PORT METRICS``
"""

import subprocess
import sys
import time

import pymysql

#: Columns of vmstat in its order, with the valid range of each ("range check").
RANGES = {
    "r": (0, 1e5), "b": (0, 1e5), "swpd": (0, 1e12), "free": (0, 1e12), "buff": (0, 1e12), "cache": (0, 1e12),
    "si": (0, 1e9), "so": (0, 1e9), "bi": (0, 1e9), "bo": (0, 1e9), "intr": (0, 1e9), "cs": (0, 1e9),
    "usr": (0, 100), "sys": (0, 100), "idle": (0, 100),
}  # fmt: skip
_HEADINGS = 3  #: two lines of names, and averages since boot
_ALPHA = 0.3  #: of the exponential moving average


def connect(port: int) -> pymysql.Connection:
    """The database of this machine."""
    return pymysql.connect(host="127.0.0.1", port=port, user="root", database="monitoring", autocommit=True)


def probe(port: int, host: int, module: int, metrics: int) -> None:
    """One line of vmstat a second, checked, as one INSERT; ``invalid`` is a bit mask of samples out of range."""
    names, ranges = list(RANGES)[:metrics], list(RANGES.values())[:metrics]
    insert = f"INSERT INTO samples (host, module, at, invalid, {','.join(names)}) VALUES ({'%s,' * (metrics + 3)}%s)"
    cursor = connect(port).cursor()
    with subprocess.Popen(["vmstat", "-n", "1"], stdout=subprocess.PIPE, text=True) as vmstat:
        for number, line in enumerate(vmstat.stdout or ()):
            if number >= _HEADINGS:
                values = [float(word) for word in line.split()[:metrics]]
                checked = enumerate(zip(values, ranges, strict=True))
                invalid = sum(1 << bit for bit, (value, (low, high)) in checked if not low <= value <= high)
                cursor.execute(insert, (host, module, time.time(), invalid, *values))


def analysis(port: int, metrics: int) -> None:
    """Once a second: new samples of one RAM-DB, averaged exponentially, into the other."""
    columns = f"host, module, {','.join(list(RANGES)[:metrics])}"
    replace = f"REPLACE INTO smoothed ({columns}) VALUES ({','.join(['%s'] * (metrics + 2))})"
    cursor, last, averages = connect(port).cursor(), 0, dict[tuple[int, int], list[float]]()
    while True:
        time.sleep(1.0)
        cursor.execute(f"SELECT id, {columns} FROM samples WHERE id > %s ORDER BY id", (last,))
        for number, host, module, *values in cursor.fetchall():
            last, old = number, averages.get((host, module), values)
            averages[host, module] = [_ALPHA * new + (1 - _ALPHA) * was for new, was in zip(values, old, strict=True)]
        cursor.executemany(replace, [(*key, *values) for key, values in averages.items()])


if __name__ == "__main__":
    (probe if sys.argv[1] == "probe" else analysis)(*map(int, sys.argv[2:]))
