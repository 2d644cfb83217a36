from array import array

HOST_RECORD: int

def open_process(proc: bytes, pid: int, start: int, wanted: int, kept: int, delays: bool, /) -> bytes: ...
def close_processes(records: bytes | bytearray, /) -> None: ...
def read_processes(
    records: bytearray,
    values: array[float],
    codes: bytearray,
    states: bytearray,
    proc: bytes,
    per_second: float,
    per_tick: float,
    page_size: float,
    memory_bytes: float,
    netlink: int,
    family: int,
    at: int,
    /,
) -> list[int]: ...
def read_host(
    descriptors: tuple[int, ...],
    record: bytearray,
    links: bytearray,
    seconds: float,
    page_size: float,
    speed: float,
    columns: bytes,
    values: array[float],
    codes: bytearray,
    /,
) -> None: ...
def read_once(path: str, limit: int, /) -> bytes: ...
