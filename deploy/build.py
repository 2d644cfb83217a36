"""``deploy/build``: reproducible packages of one commit.

They are identical byte for byte on every build machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

from environment import CHECKOUT
from system_packages import say

_DESCRIPTION = """\
Build packages of one commit. Two builds of a commit are equal byte for byte: on machines with the same compiler and
Python, whatever the directory and the clock.

What is packed beside the product has the versions of deploy/constraints.txt. The tools have versions of their own and
lie in an environment of their own, made at the first build."""

_EXAMPLES = """\
examples:
  deploy/build wheel --out dist                                   the wheel, its bill of materials, SHA256SUMS
  deploy/build wheelhouse --extra filter,serve --out wheels       and all that these extras need
  deploy/build wheelhouse --extra all --python 3.11,3.13 --out wheels
                                                                  for Debian 12 and 13 at once
  deploy/build debian --out dist                                  the Debian package of the probe alone
  deploy/build wheel --commit v1.2.0 --out dist                   of another commit
  deploy/build wheel --as-they-lie --out dist                     with what is not committed

then, on a machine without internet (in a virtual environment):
  cd wheels && sha256sum --check SHA256SUMS
  pip install --no-index --find-links wheels --require-hashes -r wheels/requirements.txt

or, on a monitored host (Debian's python3 and no pip):
  apt install ./shardpulse-probe_*.deb        then read /etc/shardpulse/probe.toml

exit codes: 0 done, 2 the command line is wrong, 66 there is no such commit, 69 a tool or a package is not to be had
"""


_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_DEBIAN_PYTHONS = "3.11,3.12,3.13"  #: of Debian 12 and 13, and the version in between
_MACHINE = platform.machine()


def main() -> int:
    """Run the command in the environment of the tools."""
    options = _parser().parse_args()
    from building import tools

    if Path(sys.prefix) != tools.prepare():
        python = tools.prepare() / "bin" / "python"
        os.execv(python, [str(python), *sys.argv])
    with tempfile.TemporaryDirectory(prefix="shardpulse-build-") as directory:
        _build(options, Path(directory))
    return 0


def _build(options: argparse.Namespace, work: Path) -> None:
    from building import debian, source, wheel, wheelhouse

    os.umask(0o022)
    wheelhouse.empty(options.out)
    exported = source.export(work / "source", options.commit, as_it_lies=options.as_they_lie)
    say(f"building {exported.commit[:12] or 'the files as they lie'}")
    ours = wheel.build(exported, work / "wheel")
    extras = frozenset(filter(None, options.extra.split(",")))
    targets = wheelhouse.default_targets(options.python, options.machine)
    if options.what == "debian":
        package = debian.build(ours, wheelhouse.collect(ours, extras, targets, exported), exported, options.out)
        say(f"{package}")
    else:
        wheelhouse.build(ours, extras, targets, exported, options.out)
        say(f"{len(list(options.out.glob('*.whl')))} wheels in {options.out}")


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("deploy/build", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=form)
    what = parser.add_subparsers(dest="what", required=True, metavar="PACKAGE")
    wheel = what.add_parser("wheel", help="the wheel alone")
    house = what.add_parser("wheelhouse", help="the wheel and all that chosen extras need")
    house.add_argument("--extra", default="all", metavar="NAME,...", help="probe, filter, serve ... (default: all)")
    debian = what.add_parser("debian", help="the Debian package of the probe alone")
    for each in (wheel, house, debian):
        each.add_argument("--out", type=Path, required=True, metavar="DIR", help="empty, or that of an earlier build")
        each.add_argument("--commit", default="HEAD", metavar="REVISION", help="what to build (default: HEAD)")
        each.add_argument("--as-they-lie", action="store_true", help="build the checkout's files, committed or not")
        pythons = _DEBIAN_PYTHONS if each is debian else _PYTHON
        each.add_argument("--python", default=pythons, metavar="3.11,...", help=f"Pythons to install with ({pythons})")
        each.add_argument("--machine", default=_MACHINE, metavar="NAME,...", help=f"their machines ({_MACHINE})")
    wheel.set_defaults(extra="")
    debian.set_defaults(extra="probe")
    return parser


if __name__ == "__main__":
    sys.path.insert(0, str(CHECKOUT))
    sys.exit(main())
