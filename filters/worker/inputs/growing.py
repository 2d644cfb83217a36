"""Growth of a ring of recent values: rewritten in its shard with more slots.

No one else holds all of its rows.

New slots are free: GONE in every row, without an average in every seed. Rare: a capacity grows by a quarter.
"""

from __future__ import annotations

from collections.abc import Callable

from acquisition.link.resp import packed
from acquisition.wire.records.recent import ROW_HEADER, SEED_HEADER, SLOT, Head, outlier_bytes

Also = Callable[[bytes], None]  #: adds commands to the next commit

#: A Lua function, also run by the commit of a full shard (partitions.partition). ``shape``: size of
#: the old string, of the part before the slots, bytes of a slot; columns, bytes of raw values and of outliers per
#: column before and after; seeds, bytes of a seed's header and of the padding before and after; the same for rows.
GROW = """\
local function grow_ring(key, front, ...)
  local shape = {...}
  for i, text in ipairs(shape) do shape[i] = tonumber(text) end
  local size, front_size, slot, columns, raw, new_raw, bits, new_bits = unpack(shape, 1, 8)
  local old = redis.call('GET', key)
  if not old or #old ~= size then return end
  local parts, at = {front}, front_size
  local function take(length, padding)
    parts[#parts + 1] = string.sub(old, at + 1, at + length) .. padding
    at = at + length
  end
  local added = (new_raw - raw) / 4
  take(slot * raw / 4, string.rep('\\0', slot * added))
  local function take_all(count, header, before, after, filler, with_bits)
    for _ = 1, count do
      take(header, '')
      for _ = 1, columns do take(raw, string.rep(filler, added)) end
      if with_bits then
        for _ = 1, columns do take(bits, string.rep('\\0', new_bits - bits)) end
      end
      at = at + before
      parts[#parts + 1] = string.rep('\\0', after)
    end
  end
  take_all(shape[9], shape[10], shape[11], shape[12], '\\0\\0\\192\\127', false)
  take_all(shape[13], shape[14], shape[15], shape[16], '\\255\\0\\192\\127', true)
  redis.call('SET', key, table.concat(parts), 'KEEPTTL')
end
"""
_SCRIPT = GROW + "grow_ring(KEYS[1], unpack(ARGV))\nreturn 1\n"


def command(key: str, old: Head, new: Head, front: bytes) -> bytes:
    """Packed EVAL that grows ``old`` to ``new``, with ``front`` as its first bytes."""
    before, after = old.places, new.places
    columns = old.columns
    raw, new_raw = 4 * old.capacity, 4 * new.capacity
    bits, new_bits = outlier_bytes(old.capacity), outlier_bytes(new.capacity)
    shape = (
        before.size, before.slots, SLOT.size, columns, raw, new_raw, bits, new_bits,
        old.seeds, SEED_HEADER.size,
        before.seed_size - SEED_HEADER.size - columns * raw, after.seed_size - SEED_HEADER.size - columns * new_raw,
        old.depth, ROW_HEADER.size,
        before.row_size - ROW_HEADER.size - columns * (raw + bits),
        after.row_size - ROW_HEADER.size - columns * (new_raw + new_bits),
    )  # fmt: skip
    return packed(("EVAL", _SCRIPT, 1, key, front, *shape))
