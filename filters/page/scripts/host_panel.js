// One host: its own figures and verdict, a plot of raw and smoothed values, and the entities on it.

import { getJson, ServiceError } from "./api.js";
import { verdictOf } from "./decisions_panel.js";
import { byId, element, keyed, setAttribute, setText } from "./dom.js";
import { EntityTable } from "./entity_table.js";
import { extraFigures, figuresText, figureText } from "./figures.js";
import { updateFact } from "./health_panel.js";
import { Plot } from "./plot.js";
import { age, count, percent, present, printable, quantity } from "./text.js";

const FIELDS = "fields=reason,age_seconds,labels,sets,readings,mean,deviation,trend,last,validity,stale_seconds,unit";
const RATIOS = [["cpu_busy_ratio", "CPU busy"], ["memory_used_ratio", "memory used"], ["network_used_ratio", "network used"]];
const STATES = { current: "good", late: "warn", down: "bad" };
const WORDS = { hot: "Hot", suspect: "Suspect", saturated: "Saturated", abstained: "Abstained" };

export class HostPanel {
  constructor(onClose) {
    this.id = "";
    this.busy = false;
    this.title = element("h2", { id: "host-title" });
    this.state = element("span", { class: "badge" });
    const close = element("button", { type: "button", onclick: onClose, "aria-label": "close this host" }, "close");
    this.reason = element("p");
    this.facts = element("div", { class: "facts old" });
    this.plotTitle = element("h3");
    this.metric = element("select", { "aria-label": "metric of the plot", onchange: () => this.plotRecent() });
    this.whole = element("button", { type: "button", hidden: true, onclick: () => this.choose("") }, "the host itself");
    this.plot = new Plot();
    this.extra = null; // the figures of further kernels, once they are known
    this.extraWords = element("p", { class: "hint", hidden: true });
    this.table = new EntityTable((id) => this.choose(id));
    byId("host").append(
      element("div", { class: "head" }, this.title, this.state, close), this.reason, this.facts,
      element("div", { class: "plot-head" }, this.plotTitle, this.whole, this.metric), this.plot.node, this.extraWords, this.table.node,
    );
  }

  /** Show a host; an empty id shows none. */
  async open(id, name = "") {
    Object.assign(this, { id, name, entity: "", own: "", host: null });
    byId("host").hidden = !id;
    if (!id) return;
    setText(this.title, printable(name || id));
    this.metric.replaceChildren();
    await this.refresh();
  }

  choose(entity) {
    this.entity = entity;
    this.metric.replaceChildren();
    this.render();
    this.plotRecent();
    this.plotTitle.scrollIntoView({ block: "nearest" });
  }

  /** Request the newest figures; at most one request at a time. */
  async refresh() {
    if (!this.id || this.busy) return;
    this.busy = true;
    const asked = this.id;
    try {
      this.extra ??= await extraFigures();
      this.table.describe(this.extra);
      const answer = await getJson(`/v1/hosts/${asked}?${[FIELDS, ...this.extra.map((figure) => figure.name)]}`);
      if (asked === this.id) {
        this.host = answer.host;
        this.render();
        await this.plotRecent();
      }
    } catch (error) {
      if (asked === this.id) this.fail(error);
    } finally {
      this.busy = false;
    }
    if (asked !== this.id) await this.refresh();
  }

  fail(error) {
    this.extra = null; // another service may have others
    setText(this.state, "unknown");
    setAttribute(this.state, "class", "badge unknown");
    setText(this.reason, error instanceof ServiceError ? printable(error.message) : "the service is unreachable");
  }

  render() {
    const { host } = this;
    if (!host) return;
    setText(this.title, printable(host.name));
    setText(this.state, host.state);
    setAttribute(this.state, "class", `badge ${STATES[host.state] ?? "unknown"}`);
    setText(this.reason, this.sentence());
    keyed(this.facts, this.factsOf(), (row) => row.label, () => element("div", { class: "fact" }, element("span"), element("b"), element("small")), updateFact);
    this.table.show(host.entities ?? [], this.entity, host.state);
    const found = host.entities?.find((row) => row.id === this.entity);
    setText(this.plotTitle, found ? printable(found.name) : "the host itself");
    this.whole.hidden = !this.entity;
  }

  sentence() {
    const { host } = this;
    const verdict = verdictOf(host.id);
    const figures = figuresText(verdict?.figures ?? []);
    const judged = `${WORDS[verdict?.outcome]}: ${verdict?.reason}${figures && ` (${figures})`}`;
    const said = verdict ? judged : verdict === null ? "Not hot by the rule." : "";
    const labels = Object.entries(host.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(", ");
    return printable([host.reason, host.state === "current" ? said : "", labels && `Labels: ${labels}.`].filter(Boolean).join(" "));
  }

  factsOf() {
    const { host } = this;
    const current = host.state === "current";
    const ratios = RATIOS.map(([metric, label]) => {
      const reading = current ? host.readings?.[metric] : null;
      const known = reading && present(reading.mean);
      const raw = reading?.validity?.startsWith("VALID") ? percent(reading.last) : (reading?.validity ?? "").toLowerCase();
      const note = known ? `± ${percent(reading.deviation, 1)}, raw ${raw}` : current ? "missing" : host.state;
      return { label, value: known ? percent(reading.mean, 1) : null, note, kind: "" };
    });
    const cores = host.readings?.cpu_count?.mean;
    return [
      ...ratios,
      { label: "age", value: present(host.age_seconds) ? age(host.age_seconds) : null, note: "of the oldest figures", kind: current ? "" : "warn" },
      { label: "runs", value: contents(host.entities ?? []), note: present(cores) ? `on ${count(cores, "core")}` : "", kind: "" },
      { label: "coverage", value: coverage(host.sets), note: lossOf(host.sets), kind: "" },
    ];
  }

  async plotRecent() {
    const asked = `${this.id} ${this.entity}`;
    try {
      const entity = this.entity || (this.own ||= await ownEntity(this.id));
      const recent = entity && (await getJson(`/v1/entities/${entity}/recent`));
      if (asked !== `${this.id} ${this.entity}`) return;
      this.offer(Object.keys(recent?.metrics ?? {}));
      const series = recent?.metrics?.[this.metric.value] ?? null;
      this.plot.show(series && { ...series, unit: unitOf(series, this.metric.value) }, `${this.plotTitle.textContent}, ${this.metric.value}`);
      setText(this.extraWords, this.extraText(this.metric.value));
      this.extraWords.hidden = !this.extraWords.textContent;
    } catch (error) {
      if (error instanceof ServiceError && error.status === 404) this.plot.show(null, "");
    }
  }

  /** `peak 0.93 cores`: figures of further kernels for the plotted metric. */
  extraText(metric) {
    const shown = this.entity ? this.host?.entities?.find((row) => row.id === this.entity) : this.host;
    const reading = shown?.readings?.[metric];
    const texts = (this.extra ?? []).map((figure) => [figure.name, figureText(figure, reading)]);
    return texts.filter(([, text]) => text !== null).map((pair) => pair.join(" ")).join(", ");
  }

  /** The metrics to choose from; the choice is kept. */
  offer(names) {
    const kept = this.metric.value;
    const known = Array.from(this.metric.options, (option) => option.value);
    this.metric.hidden = !names.length;
    if (known.join() === names.join()) return;
    this.metric.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    this.metric.value = names.includes(kept) ? kept : (["cpu_busy_ratio", "cpu_ratio"].find((name) => names.includes(name)) ?? names[0]);
  }
}

/** `3 VMs`, `12 processes`. */
function contents(entities) {
  const number = (kind) => entities.filter((row) => row.kind === kind && !row.shadow).length;
  const [vms, processes] = [number("vm"), number("process")];
  const parts = [vms && count(vms, "VM"), processes && `${processes} process${processes === 1 ? "" : "es"}`];
  return parts.filter(Boolean).join(", ") || "nothing";
}

/** The unit of a series; derived ones are ratios without a unit. */
const unitOf = (series, metric) => series.unit || (metric.endsWith("_ratio") ? "ratio" : "");

/** The id of the host's own row, which keeps its recent values. */
async function ownEntity(host) {
  const snapshot = await getJson(`/v1/snapshot?host=${host}&set=host&fields=validity`);
  return snapshot.blocks[0]?.entities[0]?.id ?? "";
}

function coverage(sets) {
  const known = (sets ?? []).map((each) => each.coverage).filter(present);
  return known.length ? percent(Math.min(...known), 1) : null;
}

function lossOf(sets) {
  const lost = (sets ?? []).reduce((sum, each) => sum + each.lost, 0);
  return lost ? `${quantity(lost, "count")} samples lost` : "no sample lost";
}
