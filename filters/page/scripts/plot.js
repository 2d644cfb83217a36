// Raw and smoothed values of one metric over the last 120 ticks (uPlot). Missing values leave
// a gap in the line; raw values that did not count are marked, never part of the line.

import uPlot from "../vendor/uPlot.esm.js";
import { element, setText } from "./dom.js";
import { count, present, quantity } from "./text.js";
import { colour, onTheme } from "./theme.js";

const HEIGHT = 200;
const UNIT_WIDTH = 92; // CSS pixels next to the plot, for the longest label: `1023 MiB/s`

export class Plot {
  constructor() {
    this.place = element("div", { role: "img" });
    this.words = element("p", { class: "hint" });
    this.node = element("div", { class: "plot" }, key(), this.place, this.words);
    this.chart = null;
    this.unit = "";
    onTheme(() => this.renew());
    new ResizeObserver(() => this.chart?.setSize(this.size())).observe(this.place);
  }

  /** Show a series of /v1/entities/{id}/recent; null when there is none. */
  show(series, label) {
    if (!series || series.tick.length < 2) {
      this.chart?.destroy();
      this.chart = null;
      this.data = null;
      this.node.classList.add("empty");
      setText(this.words, series ? "too few values yet" : "no recent values are known");
      return;
    }
    this.node.classList.remove("empty");
    this.data = columns(series);
    if (this.unit !== series.unit || !this.chart) {
      this.unit = series.unit;
      this.renew();
    } else this.chart.setData(this.data);
    setText(this.words, sentence(series));
    this.place.setAttribute("aria-label", `${label}: ${sentence(series)}`);
  }

  renew() {
    if (!this.data || !this.place.isConnected) return;
    this.chart?.destroy();
    this.chart = new uPlot(options(this.unit, this.size()), this.data, this.place);
  }

  size() {
    return { width: Math.max(200, Math.floor(this.place.clientWidth)), height: HEIGHT };
  }
}

/** Time, smoothed, raw that counted, raw that did not; a missing tick is a gap. Pure. */
export function columns(series) {
  const data = [[], [], [], []];
  const push = (...row) => row.forEach((value, index) => data[index].push(value));
  series.tick.forEach((tick, i) => {
    if (i && tick > series.tick[i - 1] + 1) push((series.wall[i] + series.wall[i - 1]) / 2, null, null, null);
    const valid = series.validity[i].startsWith("VALID");
    const raw = present(series.raw[i]) ? series.raw[i] : null;
    push(series.wall[i], present(series.mean[i]) ? series.mean[i] : null, valid ? raw : null, valid ? null : raw ?? series.mean[i]);
  });
  return data;
}

function sentence(series) {
  const last = series.tick.length - 1;
  const invalid = series.validity.filter((word) => !word.startsWith("VALID"));
  const reasons = [...new Set(invalid)].join(", ").toLowerCase();
  const trouble = invalid.length ? `${invalid.length} did not count (${reasons})` : "all counted";
  return `Raw ${quantity(series.raw[last], series.unit)}, smoothed ${quantity(series.mean[last], series.unit)}; ${count(series.tick.length, "tick")}, ${trouble}.`;
}

function options(unit, size) {
  const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  return {
    ...size,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => bounds(unit, low, high) } },
    axes: [
      { ...axis, space: 80, values: (_, ticks) => ticks.map(clock) },
      { ...axis, size: UNIT_WIDTH, values: (_, ticks) => ticks.map((value) => quantity(value, unit)) },
    ],
    series: [
      {},
      { stroke: colour("smooth"), width: 2.5, points: { show: false } },
      { stroke: colour("raw"), width: 1, points: { show: false } },
      { stroke: colour("bad"), width: 0, paths: () => null, points: { show: true, size: 7, fill: colour("bad") } },
    ],
  };
}

/** The time of day, on the user's clock. */
const clock = (seconds) => new Date(seconds * 1000).toTimeString().slice(0, 8);

function bounds(unit, low, high) {
  if (unit === "ratio") return [0, Math.max(1, high ?? 1)];
  if (!present(low) || !present(high)) return [0, 1];
  return [Math.min(0, low), high > 0 ? high * 1.1 : 1];
}

function key() {
  const item = (kind, text, mark = "") => element("li", {}, element("i", { class: kind, "aria-hidden": "true" }, mark), text);
  return element("ul", { class: "key" }, item("raw", "raw"), item("smooth", "smoothed"), item("invalid", "raw, did not count", "●"));
}
