// Geometry of the heat map (pure): the largest tiles for which all hosts fit, and their positions.

const SIZES = [
  [150, 58], [116, 46], [88, 38], [64, 30], [48, 26], [36, 22], [28, 18], [22, 15], [18, 13], [14, 11], [11, 9], [9, 8], [7, 7],
];

/** Columns, rows and tile distances for `count` tiles in `width` x `height` CSS pixels; the smallest tiles
 * may exceed the height. */
export function layout(count, width, height) {
  let found = null;
  for (const [wide, high] of SIZES) {
    const columns = Math.max(1, Math.floor(width / wide));
    const rows = Math.max(1, Math.ceil(count / columns));
    found = { columns, rows, wide: stretched(width, columns, wide), high, gap: high >= 15 ? 2 : 1, count };
    if (rows * high <= height) break;
  }
  return { ...found, height: found.rows * found.high };
}

const stretched = (width, columns, wide) => Math.min(Math.floor(width / columns), Math.round(wide * 1.6));

/** The position at a point, or -1. */
export function at(grid, x, y) {
  const column = Math.floor(x / grid.wide);
  const place = Math.floor(y / grid.high) * grid.columns + column;
  return x >= 0 && y >= 0 && column < grid.columns && place < grid.count ? place : -1;
}

/** The rectangle of a position: left, top, width, height. */
export function rectangle(grid, place) {
  const left = (place % grid.columns) * grid.wide;
  return [left, Math.floor(place / grid.columns) * grid.high, grid.wide - grid.gap, grid.high - grid.gap];
}

/** The position reached by a key. */
export function moved(grid, place, key) {
  const page = grid.columns * Math.max(1, Math.floor(300 / grid.high));
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns, PageUp: -page, PageDown: page };
  if (key === "Home") return 0;
  if (key === "End") return grid.count - 1;
  if (!(key in steps)) return null;
  const next = place + steps[key];
  if (Math.abs(steps[key]) === grid.columns && (next < 0 || next >= grid.count)) return place;
  return Math.max(0, Math.min(grid.count - 1, next));
}
