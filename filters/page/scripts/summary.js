// The line of figures in the bar: hosts by state, hot hosts, proposed moves.

import { byId, element, keyed, setText } from "./dom.js";

const ROWS = [
  ["hosts", "hosts", "host"], ["current", "current"], ["late", "late"], ["down", "down"], ["hot", "hot"], ["moves", "moves proposed", "move proposed"],
];
const JUDGED = new Set(["hot", "moves"]);

/** Show a tick document. */
export function showSummary(tick) {
  const unjudged = tick.hosts > 0 && tick.current === 0; // none of them can be judged: not known to be 0
  keyed(
    byId("summary"),
    ROWS.map(([key, many, one]) => ({ key, label: tick[key] === 1 && one ? one : many, value: unjudged && JUDGED.has(key) ? null : tick[key] })),
    (row) => row.key,
    () => element("li", {}, element("b"), element("span")),
    (node, row) => {
      setText(node.firstChild, row.value === null ? "unknown" : String(row.value));
      setText(node.lastChild, ` ${row.label}`);
    },
  );
}
