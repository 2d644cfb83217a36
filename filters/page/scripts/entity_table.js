// VMs and processes of a host: figures, their age and validity; sortable, filtered by name.

import { element, keyed, setAttribute, setText } from "./dom.js";
import { figureText } from "./figures.js";
import { age, cores, present, printable, quantity } from "./text.js";

const CPU = "cpu_ratio";
/** The columns; `extra`: figures of further kernels; those of the CPU get their own columns. */
const columnsWith = (extra) => [
  { label: "name", sort: (row) => row.name.toLowerCase() },
  { label: "kind, owner's id or pid", sort: (row) => row.kind },
  { label: "CPU (cores)", metric: CPU },
  ...extra.map((figure) => ({ label: `CPU ${figure.name}`, hint: figure.help, metric: CPU, figure })),
  { label: "vCPUs", metric: "vcpu_count", hint: "virtual CPUs" },
  { label: "suffering", metric: "vcpu_suffering_ratio", hint: "cores that the vCPUs waited for, without what their own limit took: what others took from the VM" },
  { label: "memory", metric: "memory_resident_bytes" },
  { label: "receive", metric: "network_receive_bytes_per_second" },
  { label: "transmit", metric: "network_transmit_bytes_per_second" },
  { label: "last valid", sort: (row) => sinceValid(row) ?? Infinity },
];
const STALE_SECONDS = 3; // older averages are not shown as current; decision rules abstain as well
const MOST = 400; // maximum of rows shown; on a host with more, the sort order acts as the filter

export class EntityTable {
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.sorting = { column: 2, down: true };
    this.chosen = "";
    this.rows = [];
    this.table = element("table");
    this.describe([]);
    this.empty = element("p", { class: "empty" });
    this.node = element("div", {}, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "VMs and processes" }, this.table), this.empty);
  }

  /** Set the figures of further kernels: if they changed, the table is rebuilt. */
  describe(extra) {
    const columns = columnsWith(extra);
    if (this.columns?.map(labelOf).join() === columns.map(labelOf).join()) return;
    this.columns = columns;
    this.body = element("tbody");
    this.heads = this.columns.map((column, index) =>
      element("th", { scope: "col", title: column.hint }, element("button", { type: "button", onclick: () => this.sort(index) }, column.label)),
    );
    this.table.replaceChildren(element("thead", {}, element("tr", {}, ...this.heads)), this.body);
  }

  /** `state` is that of the host: one that is not current has no figures. */
  show(entities, chosen, state) {
    Object.assign(this, { rows: entities, chosen, state });
    this.render();
  }

  sort(column) {
    this.sorting = { column, down: this.sorting.column === column ? !this.sorting.down : column > 1 };
    this.render();
  }

  render() {
    const { column, down } = this.sorting;
    const wanted = this.columns[column];
    const valueOf = (reading) => (wanted.figure ? reading?.extra?.[wanted.figure.name] : reading?.mean);
    const rank = wanted.sort ?? ((row) => valueOf(row.readings?.[wanted.metric]) ?? -Infinity);
    const sorted = [...this.rows].sort((one, other) => (down ? -1 : 1) * compare(rank(one), rank(other)));
    this.heads.forEach((head, index) => setAttribute(head, "aria-sort", index === column ? (down ? "descending" : "ascending") : null));
    keyed(this.body, sorted.slice(0, MOST), (row) => row.id, (row) => this.make(row), (node, row) => this.update(node, row));
    this.table.hidden = !sorted.length;
    setText(this.empty, sorted.length > MOST ? `${sorted.length - MOST} more are not shown` : sorted.length ? "" : "nothing is known to run here");
  }

  make(row) {
    const name = element("button", { type: "button", class: "link", onclick: () => this.onChoose(row.id) });
    return element("tr", {}, element("td", {}, name, " ", element("span", { class: "badge warn", hidden: true })), ...this.columns.slice(1).map(() => element("td")));
  }

  update(node, row) {
    const [name, , shadow] = node.firstChild.childNodes;
    setText(name, printable(row.name) || "(no name)");
    const note = row.shadow ? "migrating, load is elsewhere" : row.migrating ? "migrating" : stateOf(row);
    shadow.hidden = !note;
    setText(shadow, note);
    setAttribute(node, "class", row.id === this.chosen ? "chosen" : "");
    setAttribute(name, "aria-current", row.id === this.chosen ? "true" : null);
    setText(node.children[1], `${row.kind} ${row.kind === "process" ? row.stable.split(":").pop() : printable(row.owner_id ?? "")}`);
    this.columns.forEach((column, index) => column.metric && cell(node.children[index], row.readings?.[column.metric], this.state, column.figure, row.kind));
    const valid = sinceValid(row);
    setText(node.lastElementChild, this.state !== "current" ? this.state : valid === null ? "never" : valid === 0 ? "this tick" : `${age(valid)} before`);
  }
}

function cell(node, reading, state, figure = null, kind = "") {
  const old = reading?.stale_seconds > STALE_SECONDS;
  const known = figure ? figureText(figure, reading) : meanText(reading);
  const missing = state !== "current" || known === null || old;
  const word = state !== "current" ? state : figure && !old ? "missing" : (reading?.validity ?? "missing").toLowerCase();
  const text = !reading && state === "current" && kind !== "vm" ? "–" : missing ? word : known; // no such figure, e.g. vCPUs of a process
  setText(node, text);
  setAttribute(node, "class", missing ? "missing" : null);
  setAttribute(node, "title", reading ? `raw ${quantity(reading.last, reading.unit)}, ${reading.validity}` : null);
}

const STATES = ["", "", "stopped", "incoming"]; // by the values of the metric `state`; a running VM needs no word

/** State next to the name of a VM that is not running. */
function stateOf(row) {
  const state = row.readings?.state;
  return state?.validity === "VALID" ? (STATES[state.last] ?? "") : "";
}

/** The moving average; null if it is missing. */
function meanText(reading) {
  if (!present(reading?.mean)) return null;
  return reading.unit === "cores" ? cores(reading.mean) : quantity(reading.mean, reading.unit);
}

/** Seconds from the last valid value of CPU (if not measured, of any metric) to this tick; null: never. */
function sinceValid(row) {
  const { cpu_ratio: cpu, ...others } = row.readings ?? {};
  const known = (cpu ? [cpu] : Object.values(others)).map((reading) => reading.stale_seconds).filter(present);
  return known.length ? Math.min(...known) : null;
}

const labelOf = (column) => column.label;
const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
