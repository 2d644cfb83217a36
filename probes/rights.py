"""What the probe may ask the kernel: three capabilities (capabilities(7)) give it what processes of others hide."""

from __future__ import annotations

from probes.procfs import read_once

#: With their numbers (include/uapi/linux/capability.h): to open /proc/PID/io of another user, and to read it.
_READS_OTHERS = (("CAP_DAC_READ_SEARCH", 2), ("CAP_SYS_PTRACE", 19))
_USES = (
    (_READS_OTHERS, "how much processes of other users read and write is not known"),
    ((("CAP_NET_ADMIN", 12),), "how often and how long processes wait is read from /proc, which takes more CPU time"),
)


def lacking() -> str:
    """The capabilities that the probe would use and does not have, and what that means; "" when it has them."""
    held = _held()
    missing = [([name for name, bit in wanted if not held >> bit & 1], text) for wanted, text in _USES]
    return "; ".join(f"{' and '.join(names)}: {text}" for names, text in missing if names)


def reads_others() -> bool:
    """Whether the probe may read how much processes of others read and write."""
    held = _held()
    if all(held >> bit & 1 for _, bit in _READS_OTHERS):
        return True
    try:
        read_once("/proc/1/io")
    except PermissionError:
        return False
    except OSError:  # this kernel does not count it for anybody
        pass
    return True


def _held() -> int:
    """The capabilities that are in force, a bit each."""
    _, _, effective = read_once("/proc/self/status").partition(b"\nCapEff:")
    return int(effective.split(None, 1)[0], 16)
