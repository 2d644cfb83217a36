"""Screenshot of the page for README, from the real pipeline.

Local shards, filter and ``shardpulse serve``, the probe on this machine, and emulated hosts with their VMs, of which
a few are overloaded; headless Chromium opens the page, and on it a hot host of which a VM is to move. The words in the
picture (method and reasons) are written beside it, as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from acquisition.errors import EXIT_OK, UnavailableError, UsageError
from acquisition.shards.servers.launch import start_shards
from experiments.harness import outcome
from experiments.harness.chromium import Page, chromium
from experiments.harness.service import Service, serving
from experiments.processes import needs
from experiments.processes.control import Child, product, python
from experiments.processes.program import program
from experiments.processes.waiting import eventually, pause
from experiments.screenshots import words

_IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
_READY_SECONDS = 60.0
_NAME = "this-machine"

_EXAMPLES = """\
examples:
  python -m experiments.screenshots
  python -m experiments.screenshots --to /tmp/page.png --theme dark

exit codes: 0 done, 2 wrong options, 69 a part could not be reached, or there is no chromium"""


@program("screenshots")
def main(argv: list[str]) -> int:
    """Take the picture."""
    given = _parse(argv)
    needs.require(needs.chromium)
    with data_center(given) as service, chromium() as page:
        _look(page, service, given)
        if page.problems:
            raise UnavailableError(f"the page complains: {page.problems[0]}")
    print(f"{given.to}: {given.to.stat().st_size:,} bytes")
    return EXIT_OK


@contextlib.contextmanager
def data_center(given: argparse.Namespace) -> Iterator[Service]:
    """The whole pipeline, until the end of the block; every host is judged."""
    with tempfile.TemporaryDirectory(prefix="shardpulse-screenshots-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        shards = stack.enter_context(start_shards(0, directory / "shards"))
        addresses = [str(address) for address in shards.addresses]
        config = _config(directory)
        for command in ("filter", "probe"):
            stack.enter_context(Child(command, product(command, config, addresses)))
        hosts = stack.enter_context(Child("data center", python(f"{__package__}.data_center")))
        task = {"shards": addresses, "racks": given.racks, "in_rack": given.in_rack, "hot": given.hot}
        hosts.send(task)
        hosts.receive(_READY_SECONDS)
        service = stack.enter_context(serving(shards.addresses, directory, max(os.sched_getaffinity(0))))
        service.wait_for(given.racks * given.in_rack + 1, given.hot, given.patience)
        yield service


def _config(directory: Path) -> Path:
    """One configuration for probe and filter."""
    path = directory / "shardpulse.toml"
    path.write_text(
        f'[host]\nname = "{_NAME}"\n[probe]\nring_path = "{directory}/probe.ring"\n'
        '[probe.host]\nsource = "procfs"\n[probe.processes]\nsource = "procfs"\n'
    )
    return path


def _look(page: Page, service: Service, given: argparse.Namespace) -> None:
    """Open the page as a user would: the heat map, and the host relieved by the first move."""
    page.size(given.width, given.height)
    page.media(given.theme)
    page.open(service.url("/"))
    page.until("document.body.dataset.connection === 'live'", _READY_SECONDS)
    page.call("Emulation.setScrollbarsHidden", hidden=True)
    if given.hot:
        page.evaluate(f"location.hash = '#host={_first_move(service, given.patience)}'")
    page.evaluate(f"new Promise(done => setTimeout(done, {1000 * given.watch}))")  # until its plot has a line
    given.to.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(given.to)
    if given.hot:
        said = words.of(service.ask("/v1/hot"), service.ask("/v1/moves"))
        words.stamp(given.to).write_text(json.dumps(said, indent=1) + "\n")


def _first_move(service: Service, seconds: float) -> str:
    """The host relieved by the first proposed move. Raises UnavailableError if none is proposed in time."""
    problem, rest = f"no move was proposed within {seconds:g} s", partial(pause, 0.5)
    moves = eventually(lambda: service.ask("/v1/moves")["moves"], seconds, problem, rest, UnavailableError)
    return str(moves[0]["source"]["id"])


def _parse(argv: list[str]) -> argparse.Namespace:
    made = outcome.bare_parser("screenshots", __doc__, _EXAMPLES)
    add = made.add_argument
    add("--to", type=Path, default=_IMAGES / "page.png", metavar="FILE", help="default docs/images/page.png")
    add("--racks", type=int, default=12, metavar="N", help="racks of emulated hosts (default %(default)s)")
    add("--in-rack", type=int, default=20, metavar="N", help="hosts of a rack (default %(default)s)")
    add("--hot", type=int, default=4, metavar="N", help="overloaded hosts (default %(default)s)")
    add("--theme", choices=("light", "dark"), default="light", help="default %(default)s")
    add("--width", type=int, default=1400, metavar="PX", help="default %(default)s")
    add("--height", type=int, default=900, metavar="PX", help="default %(default)s")
    add("--watch", type=int, default=15, metavar="S", help="how long the page is open (default %(default)s)")
    add(
        "--patience",
        type=float,
        default=120.0,
        metavar="S",
        help="until hot hosts and moves are there (default %(default)s)",
    )
    given = made.parse_args(argv)
    if min(given.racks, given.in_rack, given.width, given.height) < 1 or not 0 <= given.hot <= given.racks:
        raise UsageError("there is at least one host, and at most one hot host per rack")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
