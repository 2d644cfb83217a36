// The line of figures in the bar: hosts by state and verdict, proposed moves.

import { byId, element, keyed, setText } from "./dom.js";

const ROWS = [
  ["hosts", "hosts", "host"], ["current", "current"], ["late", "late"], ["unknown", "unknown"], ["down", "down"], ["hot", "hot"],
  ["suspect", "suspect"], ["saturated", "saturated"], ["moves", "moves proposed", "move proposed"],
];

/** Show a tick document. */
export function showSummary(tick) {
  keyed(
    byId("summary"),
    ROWS.map(([key, many, one]) => ({ key, label: tick[key] === 1 && one ? one : many, value: tick[key] })),
    (row) => row.key,
    () => element("li", {}, element("b"), element("span")),
    (node, row) => {
      setText(node.firstChild, row.value === null ? "unknown" : String(row.value));
      setText(node.lastChild, ` ${row.label}`);
    },
  );
}
