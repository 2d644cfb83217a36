// Whether the page is current, and a notice if not: live, incomplete, blind, stale, trouble, disconnected.

import { byId, setText } from "./dom.js";
import { age, printable } from "./text.js";

const LEAST_STALE_SECONDS = 3;

/** Returns the target of the stream's reports. Time is the browser's monotonic clock: clocks of machines may differ. */
export function watchConnection() {
  const state = { kind: "connecting", reason: "", heard: null, gap: 1, tick: null };
  const show = () => render(state);
  setInterval(show, 500);
  return {
    /** A tick document has arrived. */
    tick(document) {
      const now = performance.now();
      if (state.heard !== null) state.gap = Math.min(60, 0.8 * state.gap + 0.2 * ((now - state.heard) / 1000));
      Object.assign(state, { kind: "live", reason: "", heard: now, tick: document });
      show();
    },
    trouble(reason) {
      Object.assign(state, { kind: "trouble", reason });
      show();
    },
    opened() {
      if (state.kind === "disconnected") Object.assign(state, { kind: "connecting", gap: 1 });
      show();
    },
    closed(reason) {
      Object.assign(state, { kind: "disconnected", reason });
      show();
    },
  };
}

const sinceHeard = (state) => (state.heard === null ? null : (performance.now() - state.heard) / 1000);

function kindOf(state) {
  const since = sinceHeard(state);
  const late = since !== null && since > Math.max(LEAST_STALE_SECONDS, 3 * state.gap);
  if (late && (state.kind === "live" || state.kind === "connecting")) return "stale";
  return state.kind === "live" ? qualityOf(state.tick) : state.kind;
}

/** Quality of the contents of an arriving tick. */
function qualityOf(tick) {
  if (tick.blind) return "blind";
  return tick.errors?.length ? "incomplete" : "live";
}

function render(state) {
  const kind = kindOf(state);
  const since = sinceHeard(state);
  const texts = {
    disconnected: `Disconnected: ${state.reason}.`,
    trouble: "No current snapshot.",
    stale: "Stale: no new tick received.",
    blind: `Blind: ${printable(state.tick?.blind ?? "")}.`,
    incomplete: `Incomplete: ${printable(state.tick?.errors?.join("; ") ?? "")}.`,
  };
  document.body.dataset.connection = kind;
  const banner = byId("banner");
  banner.hidden = !(kind in texts);
  setText(byId("banner-text"), texts[kind] ?? ""); // read aloud when it changes; the running count is shown next to it
  const old = since === null ? "No data received yet." : `Displayed data is ${age(since)} old.`;
  const again = state.kind === "live" && kind !== "stale" ? "" : `${old} Trying again.`;
  setText(byId("banner-age"), `${kind === "trouble" ? `${printable(state.reason)}. ` : ""}${again}`);
  setText(byId("live-text"), kind === "live" ? `live, ${age(since)}` : kind);
}
