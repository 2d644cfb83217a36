"""What lets the unit of a shard wait before it starts a master whose replica has yet to take over (pure).

Nothing is on disk, so a master comes back empty. Back within the node timeout it is taken for the one that it was,
and its replicas copy its emptiness (design, decision 4). Whoever starts it may be too early: systemd after a crash,
``systemctl restart``, a machine that boots within seconds. So the unit itself waits, for a shard that was a master
with slots and had a replica when it ended: its own list of members, ``nodes.conf``, says so. Everybody else starts
at once: a new shard, a replica, a master that has handed over, one without a replica.
"""

from __future__ import annotations

SECONDS = 15  #: longer than a replica takes to take over: node timeout (2 s) and election, about 4 s in all
#: As the shard's user, in no group of his, outside of the shard's sandbox, which lets no other program run. awk ends
#: with 0 where it waits; a line of nodes.conf is ``id address flags master … slot …``, as of CLUSTER NODES.
_DIRECTIVE = """\
ExecStartPre=+/usr/bin/setpriv --reuid={user} --regid=65534 --clear-groups --no-new-privs /bin/sh -c "\\
    if awk '$$3 ~ /myself/ && $$3 ~ /master/ && NF > 8 {{ own = $$1 }} $$3 ~ /slave/ {{ followed[$$4] }} \\
            END {{ exit !(own in followed) }}' {data}/nodes.conf 2>/dev/null; \\
    then echo it was a master with a replica, which shall take over first: it starts in {seconds} s; \\
         exec sleep {seconds}; fi"
"""


def directive(user: str, data: str) -> str:
    """The lines of a unit of systemd whose shard is ``user``'s and has ``nodes.conf`` in the directory ``data``."""
    return _DIRECTIVE.format(user=user, data=data, seconds=SECONDS)
