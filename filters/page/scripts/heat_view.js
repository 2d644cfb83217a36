// User interface of the heat map: canvas, keys, pointer, legend, and text for users who cannot see it.

import { byId, element, setText } from "./dom.js";
import { HeatCanvas, swatch, wordOf } from "./heat_canvas.js";
import { HeatModel } from "./heat_model.js";
import { age, count, percent, printable } from "./text.js";
import { colour, onTheme, theme } from "./theme.js";
import { at, layout, moved, rectangle } from "./tiles.js";

const LABELS = { cpu: "CPU", memory: "memory", network: "network" };

/** `onOpen(id, name)` is called for the selected host. */
export class HeatView {
  constructor(onOpen) {
    this.model = new HeatModel();
    this.box = byId("heat");
    this.canvas = new HeatCanvas(byId("tiles"));
    this.onOpen = onOpen;
    this.focus = 0;
    this.chosen = "";
    this.listen();
    new ResizeObserver(() => this.reshape()).observe(this.box);
    onTheme(() => this.reshape(true));
    this.reshape(true);
  }

  setRoster(document) {
    const kept = this.hostAt(this.focus);
    this.model.setRoster(document);
    this.focus = Math.max(0, this.model.ids.indexOf(kept?.id ?? ""));
    this.reshape(true);
  }

  /** Returns whether it matched the roster. */
  setHeat(document) {
    const kept = this.hostAt(this.focus)?.id;
    const fits = this.model.setHeat(document);
    if (fits) this.stay(kept);
    if (fits) this.later();
    return fits;
  }

  /** Keep the focus on its host when the order changes: Enter opens the host read by a screen reader. */
  stay(id) {
    if (this.model.sorting === "name") return;
    const place = this.model.order.indexOf(this.model.ids.indexOf(id));
    if (place >= 0) this.focus = place;
  }

  select(id) {
    this.chosen = id;
    this.later();
  }

  choose(changes) {
    this.model.choose(changes);
    this.focus = 0;
    this.reshape(true);
  }

  /** The host at a position of the map. */
  hostAt(place) {
    const host = this.model.order[place];
    return host === undefined ? null : { host, id: this.model.ids[host], name: this.model.names[host] };
  }

  reshape(always = false) {
    const width = Math.floor(this.box.clientWidth);
    const height = Math.max(240, Math.round(window.innerHeight * 0.52));
    if (!width || (!always && width === this.width && height === this.height)) return;
    Object.assign(this, { width, height, grid: layout(this.model.order.length, width, height) });
    const colours = {
      panel: colour("panel"), plate: colour("raised"), text: colour("text"), hatch: colour("hatch"),
      missing: colour("missing"), bad: theme() === "dark" ? "#ffffff" : "#3a0010", focus: colour("focus"),
    };
    this.canvas.shape(this.grid, theme(), colours);
    byId("legend").replaceChildren(...legend(colours));
    this.later();
  }

  /** Draw at the next frame, once for any number of changes. */
  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const focused = document.activeElement === this.box;
      this.canvas.draw(this.model, focused ? this.focus : -1, this.model.ids.indexOf(this.chosen));
      this.describe();
    });
  }

  describe() {
    const { model } = this;
    const empty = byId("heat-empty");
    empty.hidden = model.order.length > 0;
    if (!empty.hidden) setText(empty, model.roster === "" ? "waiting for the first picture" : model.text ? "no host has this name" : "no host has said anything yet");
    const host = this.hostAt(this.focus);
    const option = byId("heat-focus");
    setText(option, host ? this.sentence(host) : "no host");
    option.setAttribute("aria-posinset", String(this.focus + 1));
    option.setAttribute("aria-setsize", String(model.order.length));
  }

  /** One host in words. */
  sentence({ host, name }) {
    const { model } = this;
    const value = model.value(host);
    const load = value === null ? `${LABELS[model.metric]} ${wordOf(model, host)}` : `${LABELS[model.metric]} ${percent(value / 1000)}`;
    return `${printable(name)}, ${load}, ${model.state(host)}, ${model.outcome(host)}`;
  }

  listen() {
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.later());
    this.box.addEventListener("blur", () => this.later());
    const canvas = this.canvas.canvas;
    canvas.addEventListener("click", (event) => this.point(event, (place) => this.open(place)));
    canvas.addEventListener("pointermove", (event) => this.point(event, (place) => this.tip(place, event)));
    canvas.addEventListener("pointerleave", () => this.tip(-1));
  }

  point(event, act) {
    act(this.grid ? at(this.grid, event.offsetX, event.offsetY) : -1);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !this.model.order.length) return;
    if (event.key === "Enter" || event.key === " ") this.open(this.focus);
    else {
      const next = moved(this.grid, this.focus, event.key);
      if (next === null) return;
      this.focus = next;
      this.reveal();
      this.later();
    }
    event.preventDefault();
  }

  /** Scroll the focused tile into view. */
  reveal() {
    const box = this.box.getBoundingClientRect();
    const [, top, , height] = rectangle(this.grid, this.focus);
    const [above, below] = [box.top + top - 70, box.top + top + height + 20 - window.innerHeight];
    if (above < 0) window.scrollBy(0, above);
    else if (below > 0) window.scrollBy(0, below);
  }

  open(place) {
    const host = this.hostAt(place);
    if (!host) return;
    this.focus = place;
    this.tip(-1);
    this.onOpen(host.id, host.name);
  }

  tip(place, event) {
    const host = place < 0 ? null : this.hostAt(place);
    const tip = byId("tip");
    tip.hidden = !host;
    if (!host || !this.model.heat) return;
    const { heat } = this.model;
    const values = Object.keys(LABELS).map((metric) => {
      const value = heat[metric][host.host];
      return `${LABELS[metric]} ${value === null ? "missing" : percent(value / 1000)}`;
    });
    const [state, outcome] = [this.model.state(host.host), this.model.outcome(host.host)];
    tip.replaceChildren(
      element("b", {}, printable(host.name)),
      element("div", {}, values.join(" · ")),
      element("div", { class: "hint" }, `${state}, ${outcome}, ${age(heat.age_seconds[host.host])} old`),
    );
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8)}px`;
  }

  /** Number of hosts shown, in words. */
  get shown() {
    return count(this.model.order.length, "host");
  }
}

function legend(colours) {
  const item = (kind, ...texts) => element("li", {}, swatch(kind, theme(), colours), ...texts);
  return [
    element("li", {}, "0 %", swatch("load", theme(), colours), "100 %"),
    item("hot", "hot by the rule"),
    item("missing", "missing, late or unknown"),
    item("down", "down"),
  ];
}
