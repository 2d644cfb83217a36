// Contents of the heat map: roster and newest heat, its metric, its order, and matches of the search text.

const TROUBLE = { d: 5, u: 4.5, l: 4, "?": 3, a: 2, h: 6, s: 3.5, b: 1, n: 0 };

export class HeatModel {
  constructor() {
    this.roster = "";
    this.ids = [];
    this.names = [];
    this.heat = null;
    this.metric = "cpu";
    this.sorting = "name";
    this.text = "";
    this.order = new Int32Array(0);
  }

  setRoster(document) {
    Object.assign(this, { roster: document.roster, ids: document.ids, names: document.names });
    if (this.heat && this.heat.roster !== this.roster) this.heat = null;
    this.arrange();
  }

  /** Whether the heat matches the known roster; if not, the roster must be requested. */
  setHeat(document) {
    if (document.roster !== this.roster) return false;
    this.heat = document;
    if (this.sorting !== "name") this.arrange();
    return true;
  }

  choose(changes) {
    Object.assign(this, changes);
    this.arrange();
  }

  /** Positions of hosts in display order. */
  arrange() {
    const wanted = this.text.trim().toLowerCase();
    const shown = [];
    for (let host = 0; host < this.ids.length; host += 1) {
      if (!wanted || this.names[host].toLowerCase().includes(wanted)) shown.push(host);
    }
    if (this.heat && this.sorting !== "name") {
      const rank = this.sorting === "heat" ? (host) => this.value(host) ?? -1 : (host) => this.troubleOf(host);
      const ranks = new Map(shown.map((host) => [host, rank(host)]));
      shown.sort((one, other) => ranks.get(other) - ranks.get(one) || one - other);
    }
    this.order = Int32Array.from(shown);
  }

  /** Thousandths of the host's capacity, null if there is none. */
  value(host) {
    return this.heat ? this.heat[this.metric][host] : null;
  }

  state(host) {
    return { c: "current", l: "late", u: "unknown", d: "down" }[this.heat?.states[host]] ?? "unknown";
  }

  outcome(host) {
    return { h: "hot", s: "suspect", b: "saturated without harm", n: "not hot", a: "abstained", "?": "not judged" }[this.heat?.outcomes[host]] ?? "not judged";
  }

  troubleOf(host) {
    const { states, outcomes } = this.heat;
    const worst = Math.max(TROUBLE[states[host]] ?? 0, TROUBLE[outcomes[host]] ?? 0);
    return worst * 10000 + (this.value(host) ?? 0);
  }
}
