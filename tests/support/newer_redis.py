"""Newer Redis package: Debian's own, repacked under a newer version.

The server reports that version as well.

The packages lie in a source of the host's own, and no other source is left there.
"""

from __future__ import annotations

import re

from tests.support.hosts import Host

_PLACE = "/srv/newer"
#: dpkg-repack(1) in short. The old version and the new one are of one length, as they stand in a program.
_PACK = """
set -eu
export LC_ALL=C
old=$1 new=$2 place=$3
rm -rf "$place"
mkdir -p "$place"
for package in redis-server redis-tools; do
    root=$place/$package
    mkdir -p "$root/DEBIAN"
    dpkg-query -L "$package" | while read -r file; do
        if [ -d "$file" ]; then mkdir -p "$root$file"; else cp -a "$file" "$root$file"; fi
    done
    for name in preinst postinst prerm postrm conffiles; do
        [ ! -e "/var/lib/dpkg/info/$package.$name" ] || cp "/var/lib/dpkg/info/$package.$name" "$root/DEBIAN/$name"
    done
    was=$(dpkg-query -W -f '${Version}' "$package")
    dpkg-query -W -f 'Package: ${Package}\nVersion: ${Version}\nArchitecture: ${Architecture}\nMaintainer: test
Depends: ${Depends}\nDescription: newer\n' "$package" | sed "s/$was/5:$new-1/" > "$root/DEBIAN/control"
    find "$root/usr/bin" -type f -exec sed -i "s/$(echo "$old" | sed 's/[.]/[.]/g')/$new/g" {} +
    dpkg-deb --root-owner-group -Zgzip -z1 --build "$root" "$place/$package.deb" >/dev/null
    rm -rf "$root"
done
cd "$place"
for deb in *.deb; do
    dpkg-deb -f "$deb"
    echo "Filename: ./$deb"
    echo "Size: $(stat -c %s "$deb")"
    echo "SHA256: $(sha256sum "$deb" | cut -d ' ' -f 1)"
    echo
done > Packages
rm -f /etc/apt/sources.list.d/*
echo "deb [trusted=yes] file:$place ./" > /etc/apt/sources.list
"""


def offer(host: Host) -> str:
    """Let apt of a host with Debian's redis-server find a newer one, and nothing else; its version."""
    found = re.search(r"v=(\d+\.\d+\.)(\d+)", host.ssh("redis-server --version"))
    assert found, "redis-server says no version"
    old, new = found[1] + found[2], found[1] + "9" * len(found[2])
    host.ssh(f"sh -s {old} {new} {_PLACE}", given=_PACK)
    return new
