"""Files of /proc are read to their end, however little of them a read brings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from probes.sampling import procfs
from probes.sampling.procfs import OpenFile, read_once

INTERFACES = 200
#: What a probe says about the interfaces of the namespace that it runs in.
LOOK = """
import sys
from probes.figures.network import Traffic
traffic = Traffic()
for _ in range(2):
    print(*sorted(traffic.read()))
"""


def test_every_interface_of_a_host_with_many_is_seen() -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a network namespace with 200 interfaces needs root and ip (apt install iproute2)")
    pairs = "".join(f"link add many{i}a type veth peer name many{i}b\n" for i in range(INTERFACES // 2))
    script = f'ip -batch - && exec "{sys.executable}" -c "$LOOK"'
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script],
        input=pairs,
        env={**os.environ, "LOOK": LOOK, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "Operation not permitted" in done.stderr or "not supported" in done.stderr:
        pytest.skip(f"no network namespace with veth here: {done.stderr.strip()}")
    first, second = done.stdout.splitlines()
    wanted = {f"many{i}{end}" for i in range(INTERFACES // 2) for end in "ab"} | {"lo"}
    assert wanted <= set(first.split())
    assert first == second


def test_a_short_read_is_not_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % i for i in range(5000))
    (tmp_path / "long").write_bytes(text)
    at_once, read, pread = 4000, os.read, os.pread
    monkeypatch.setattr(os, "read", lambda file, size: read(file, min(size, at_once)))
    monkeypatch.setattr(os, "pread", lambda file, size, at: pread(file, min(size, at_once), at))
    file = OpenFile(str(tmp_path / "long"))
    assert [file.read() == text for _ in range(2)] == [True, True]
    file.close()
    for read_all in (read_once, procfs._read_piecewise):
        assert read_all(str(tmp_path / "long"), 1 << 16) == text
        assert read_all(str(tmp_path / "long"), 9000) == text[:9000]
        assert read_all(str(tmp_path / "long"), 0) == b""
        with pytest.raises(FileNotFoundError):
            read_all(str(tmp_path / "none"), 10)
        with pytest.raises(IsADirectoryError):
            read_all(str(tmp_path), 10)
