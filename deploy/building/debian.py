"""Debian package of the probe: system python3 and OpenSSL, bundled hiredis.

It needs no pip.

One package serves all named Pythons: modules compiled for several are side by side under separate names.
"""

from __future__ import annotations

import configparser
import gzip
import hashlib
import io
import os
import shutil
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from system_packages import fail

from building import bill, pinned, sums
from building.pinned import Target
from building.source import Source
from building.tools import run

NAME = "shardpulse-probe"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: Debian's tools require an address; names below .invalid belong to no one (RFC 2606). See CONTRIBUTING.md for ours.
_MAINTAINER = "the shardpulse authors <authors@shardpulse.invalid>"
_SYSUSERS = "systemd | systemd-standalone-sysusers | systemd-sysusers"  #: creators of the user, as named by debhelper
#: Parts of the product for a probe's host.
_PACKAGES = ("acquisition", "probes")
_COMMANDS = ("probe", "replay", "capture", "config")
_GROUPS = ("shardpulse.metrics", "shardpulse.sources", "shardpulse.checks")
_OURS = """\
This package was made by deploy/build of shardpulse from its source.

Copyright 2026 the shardpulse authors

Licensed under the Apache License, Version 2.0. On Debian systems its text is in /usr/share/common-licenses/Apache-2.0.
"""
_START = """\
#!/usr/bin/python3 -Es
import sys

sys.path.insert(0, "/usr/lib/shardpulse")
from acquisition.cli import main

sys.exit(main())
"""


def build(ours: Path, by_target: dict[Target, dict[str, Path]], source: Source, out: Path) -> Path:
    """Build the package in ``out``, next to its bill of materials and sums. Exits with 69 without dpkg-deb or strip."""
    for tool in ("dpkg-deb", "strip"):
        if shutil.which(tool) is None:
            fail(f"{tool} is not installed: apt install dpkg binutils")
    root = source.directory.parent / "debian"
    others = sorted({path for found in by_target.values() for path in found.values() if path != ours})
    _install(root, ours, others, source)
    version = _version(ours, source)
    architecture = _architecture(list(by_target))
    (root / "DEBIAN" / "control").write_text(_control(root, version, architecture, list(by_target)))
    _fix(root, source.epoch)
    package = out / f"{NAME}_{version}_{architecture}.deb"
    # one thread: xz divides blocks according to their number
    build_it = ["dpkg-deb", "--root-owner-group", "--uniform-compression", "-Zxz", "--threads-max=1", "--build"]
    run([*build_it, root, package], "dpkg-deb could not build the package", epoch=source.epoch)
    bill.write(out / "bill.cdx.json", [ours, *others], source, ours)
    sums.write(out)
    return package


def _install(root: Path, ours: Path, others: Sequence[Path], source: Source) -> None:
    """All files of the package below ``root``."""
    home, given = root / "usr/lib/shardpulse", source.directory / "deploy"
    for wheel in (ours, *others):
        with zipfile.ZipFile(wheel) as content:
            content.extractall(home, [name for name in content.namelist() if _is_part(name, wheel == ours)])
    for entries in home.glob("shardpulse-*.dist-info/entry_points.txt"):
        entries.write_text(_entry_points(entries.read_text()))
    for compiled in home.rglob("*.so"):
        run(["strip", "--strip-unneeded", compiled], f"strip cannot read {compiled.name}")
    unit = (given / "systemd/shardpulse-probe.service").read_text()
    written = {
        "usr/bin/shardpulse": _START,
        f"usr/lib/systemd/system/{NAME}.service": unit.replace("/usr/local/bin/", "/usr/bin/"),
        f"usr/lib/sysusers.d/{NAME}.conf": (given / "debian/sysusers.conf").read_text(),
        f"usr/lib/tmpfiles.d/{NAME}.conf": (given / "debian/tmpfiles.conf").read_text(),
        "etc/shardpulse/probe.toml": (given / "debian/probe.toml").read_text(),
        f"usr/share/doc/{NAME}/copyright": _copyright(others),
        "DEBIAN/conffiles": "/etc/shardpulse/probe.toml\n",
        **{f"DEBIAN/{name}": (given / "debian" / name).read_text() for name in ("postinst", "prerm", "postrm")},
    }
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    _write_changelog(root / f"usr/share/doc/{NAME}/changelog.gz", _version(ours, source), source)


def _is_part(name: str, is_ours: bool) -> bool:
    """Whether a file of a wheel is in the package: no headers, no tests, no record of installed files, no licence,
    as ``copyright`` contains them all."""
    if name.endswith(("/RECORD", "/WHEEL", "/top_level.txt", ".c", ".h", ".pyi", "/py.typed")) or "/sboms/" in name:
        return False
    if ".dist-info/licenses/" in name:
        return False
    return not is_ours or name.split("/", maxsplit=1)[0] in _PACKAGES or ".dist-info/" in name


def _entry_points(text: str) -> str:
    """Entry points of the package's contents."""
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.read_string(text)
    kept = {group: dict(parser[group]) for group in _GROUPS}
    kept["shardpulse.commands"] = {name: parser["shardpulse.commands"][name] for name in _COMMANDS}
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items())
        for group, names in kept.items()
    ]
    return "\n".join(lines)


def _version(ours: Path, source: Source) -> str:
    """The release's if a tag names the commit so; else below the release (deb-version(7)), greater for later ones."""
    release = pinned.version(ours)
    if f"v{release}" in source.tags:
        return release
    moment = datetime.fromtimestamp(source.epoch, UTC).strftime("%Y%m%d.%H%M%S")
    return f"{release}~git{moment}.{source.commit[:7] or 'uncommitted'}"


def _architecture(targets: Sequence[Target]) -> str:
    machines = {target.machine for target in targets}
    known = {_ARCHITECTURES.get(machine) for machine in machines}
    if len(known) != 1 or None in known:
        fail(f"a package is of one architecture, {' or '.join(_ARCHITECTURES)}: name one with --machine")
    return str(known.pop())


def _control(root: Path, version: str, architecture: str, targets: Sequence[Target]) -> str:
    minors = sorted(int(target.python.removeprefix("3.")) for target in targets)
    if minors != list(range(minors[0], minors[-1] + 1)):
        fail("name all Pythons between the first and the last with --python: the package's dependency is a range")
    files = sorted(path for path in root.rglob("*") if path.is_file() and "DEBIAN" not in path.relative_to(root).parts)
    md5 = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)
    (root / "DEBIAN/md5sums").write_text(md5)
    kilobytes = sum(-(-path.stat().st_size // 1024) for path in files)
    return f"""\
Package: {NAME}
Version: {version}
Architecture: {architecture}
Maintainer: {_MAINTAINER}
Installed-Size: {kilobytes}
Depends: python3 (>= 3.{minors[0]}), python3 (<< 3.{minors[-1] + 1}), libc6 (>= 2.17), {_SYSUSERS}
Section: admin
Priority: optional
Description: samples this host for the shards of shardpulse
 One light process reads the host, its processes and its virtual machines every
 second, checks every sample, and sends them to the shards of shardpulse. Frames
 that cannot be sent wait in memory, also while the probe is restarted.
 .
 It needs Debian's Python and nothing that pip installs.
"""


def _copyright(others: Sequence[Path]) -> str:
    """Text on the contents of the package, and on the licences of the wheels."""
    parts = [_OURS, "It also contains these packages of PyPI:\n"]
    told = set()
    for wheel in others:
        header = bill.metadata(wheel)
        with zipfile.ZipFile(wheel) as content:
            names = [name for name in content.namelist() if ".dist-info/" in name and "LICEN" in name.upper()]
            texts = "\n".join(content.read(name).decode() for name in sorted(names))
        told.add(f"{header['Name']} {header['Version']}\n\n{texts}")
    return "\n".join([*parts, *sorted(told)])


def _write_changelog(target: Path, version: str, source: Source) -> None:
    moment = format_datetime(datetime.fromtimestamp(source.epoch, UTC))
    change = f"  * Commit {source.commit or 'none: files as they lay'}; see CHANGELOG.md there."
    text = f"{NAME} ({version}) unstable; urgency=medium\n\n{change}\n\n -- {_MAINTAINER}  {moment}\n"
    made = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=made, mtime=source.epoch) as packed:
        packed.write(text.encode())
    target.write_bytes(made.getvalue())


def _fix(root: Path, epoch: int) -> None:
    """Set modes and times that do not depend on umask or clock."""
    executable = {"usr/bin/shardpulse", "DEBIAN/postinst", "DEBIAN/prerm", "DEBIAN/postrm"}
    for path in sorted(root.rglob("*"), reverse=True):
        path.chmod(0o755 if path.is_dir() or str(path.relative_to(root)) in executable else 0o644)
        os.utime(path, (epoch, epoch))
    root.chmod(0o755)
    os.utime(root, (epoch, epoch))
