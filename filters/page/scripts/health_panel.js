// The condition of the pipeline itself: verdict, freshness, books, shards, workers, findings.

import { getJson } from "./api.js";
import { byId, element, keyed, setAttribute, setText } from "./dom.js";
import { age, count, present, printable, quantity } from "./text.js";

const SECONDS = 4; // checking the books of all hosts costs more than a picture
const CLASSES = { ok: "good", stale: "warn", empty: "warn", unbalanced: "bad", down: "bad" };
const FINDINGS = { note: "", stale: "warn", unbalanced: "bad", down: "bad" };
const WORST_FIRST = ["down", "unbalanced", "stale", "note"];
const MOST = 30;
let parts = null;

/** Poll forever, while the page is visible. */
export function startHealth() {
  parts = { facts: element("div", { class: "facts old" }), findings: element("ul", { class: "findings" }) };
  byId("pipeline").append(parts.facts, parts.findings);
  look();
}

async function look() {
  if (document.visibilityState === "visible") {
    try {
      show(await getJson("/v1/status"));
    } catch (error) {
      badge("unknown", "unknown");
      unknown(error instanceof TypeError ? "the service is unreachable" : error.message);
    }
  }
  setTimeout(look, SECONDS * 1000);
}

function show(status) {
  badge(status.verdict, CLASSES[status.verdict] ?? "unknown");
  keyed(parts.facts, factsOf(status), (fact) => fact.label, () => makeFact(), updateFact);
  const rows = grouped(status.findings).slice(0, MOST);
  keyed(parts.findings, rows, ([key]) => key, makeFinding, updateFinding);
}

function unknown(reason) {
  keyed(parts.findings, [["unknown", { kind: "unknown", about: "", text: reason }]], ([key]) => key, makeFinding, updateFinding);
}

/** Findings with the same text as one, worst first: [key, {kind, about, text}]. */
function grouped(findings) {
  const groups = new Map();
  for (const { kind, about, text } of findings) {
    const key = `${kind} ${text}`;
    const group = groups.get(key) ?? { kind, text, all: [] };
    group.all.push(about);
    groups.set(key, group);
  }
  const rank = ([, group]) => (WORST_FIRST.indexOf(group.kind) + 9) % 9;
  return [...groups].sort((one, other) => rank(one) - rank(other)).map(([key, group]) => [key, { ...group, about: named(group.all) }]);
}

const named = (all) => (all.length > 3 ? `${all.slice(0, 2).join(", ")} and ${all.length - 2} more` : all.join(", "));

function factsOf(status) {
  const { books, freshness, shards, workers, service } = status;
  const up = shards.filter((shard) => shard.answering || shard.refuses).length;
  const used = shards.map((shard) => (present(shard.memory_bytes) ? shard.memory_bytes / shard.memory_limit_bytes : null)).filter(present);
  const behind = (workers ?? []).map((worker) => worker.behind_seconds).filter(present);
  const unread = Object.keys(books?.unreadable ?? {}).length;
  const read = unread ? `in what could be read: ${count(unread, "partition")} could not` : "";
  const without = books?.without_value;
  return [
    fact("freshness p99", freshness && age(freshness.p99), freshness && `p50 ${age(freshness.p50)}, worst ${age(freshness.worst)}`),
    fact("books", books && word(status), read || (books && `${books.applied.toLocaleString("en")} samples applied`), books && !books.balanced && "bad"),
    fact("lost", books && books.lost.toLocaleString("en"), read || "samples", books?.lost ? "warn" : ""),
    fact("invalid", books && books.invalid.toLocaleString("en"), read || "samples failed a check"),
    fact("no value", without && total(without).toLocaleString("en"), without && read ? read : reasons(without)),
    fact("shards", shards.length ? `${up} of ${shards.length}` : null, used.length ? `fullest ${quantity(Math.max(...used), "ratio")}` : "", up < shards.length ? "bad" : ""),
    fact("filter workers", workers && String(workers.length), behind.length ? `${age(Math.max(...behind))} behind` : "backlog unknown", workers?.length ? "" : "bad"),
    fact("streams", String(service.streams), count(service.streams_cut_off, "slow one") + " cut off"),
  ];
}

const total = (counts) => Object.values(counts).reduce((sum, one) => sum + one, 0);
const reasons = (counts) => Object.entries(counts ?? {}).map(([code, number]) => `${number.toLocaleString("en")} ${code}`).join(", ");

/** The books in one word: missing parts do not make them wrong. */
const word = ({ books, verdict }) => (books.balanced ? "balanced" : verdict !== "unbalanced" ? "incomplete" : "unbalanced");

const fact = (label, value, note = "", kind = "") => ({ label, value: value ?? null, note: note || "", kind: kind || "" });

function makeFact() {
  return element("div", { class: "fact" }, element("span"), element("b"), element("small"));
}

/** A labelled figure; a missing value is hatched and named as missing. */
export function updateFact(node, { label, value, note, kind }) {
  const [title, number, small] = node.children;
  setAttribute(node, "class", `fact ${value === null ? "unknown" : kind}`);
  setText(title, label);
  setText(number, value ?? "unknown");
  setText(small, note);
}

function makeFinding() {
  return element("li", {}, element("span", { class: "badge" }), element("span"));
}

function updateFinding(node, [, row]) {
  setAttribute(node.firstChild, "class", `badge ${FINDINGS[row.kind] ?? "unknown"}`);
  setText(node.firstChild, row.kind);
  setText(node.lastChild, printable(row.about ? `${row.about}: ${row.text}` : row.text));
}

function badge(word, kind) {
  setText(byId("verdict"), word);
  setAttribute(byId("verdict"), "class", `badge ${kind}`);
}
