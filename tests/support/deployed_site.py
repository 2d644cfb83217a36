"""Three hosts with systemd on which the playbooks run, as an operator would run them (experiments.hosts.site)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from acquisition.certificates import files, making
from experiments.hosts.site import BIN, DEPLOY, NAMES, VARIABLES, Site, build_wheels, changed, said
from tests.support.hosts.demanded import hosts_for_a_test

__all__ = [
    "BIN", "DEPLOY", "NAMES", "SITE_PACKAGES", "VARIABLES", "Site", "build_wheels", "changed", "said", "three_hosts",
]  # fmt: skip

SITE_PACKAGES = ["redis-server"]


@contextmanager
def three_hosts(directory: Path, spare: Sequence[str] = ()) -> Iterator[Site]:
    """Three hosts on which ``site.yml`` has run once, and ``spare`` ones that are bare; ``directory`` is empty."""
    (directory / "inventory").mkdir()
    build_wheels(directory / "inventory" / "wheels")
    with hosts_for_a_test(directory / "hosts", [*NAMES, *spare], packages=SITE_PACKAGES) as hosts:
        made_of = Site(hosts, directory / "inventory")
        done = made_of.play("site.yml")
        assert done.returncode == 0, said(done, hosts)
        yield made_of


def expired_pair(authority: Path, address: str) -> dict[str, str]:
    """Let the certificate that an authority of the controller has issued for ``address`` be one that is over; what its
    files hold, by their endings."""
    long_ago = datetime.now(UTC).replace(microsecond=0) - timedelta(days=25)
    for ending in ("pem", "key"):
        (authority / "issued" / f"{address}.{ending}").unlink(missing_ok=True)
    made = files.write(making.issue(files.read(authority), [address], long_ago, 20), authority / "issued", address)
    return {path.suffix.removeprefix("."): path.read_text() for path in made}
