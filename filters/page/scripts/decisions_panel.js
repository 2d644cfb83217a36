// Hot hosts and proposed moves with reasons; suspect and saturated hosts, refusals, abstentions.

import { byId, element, keyed, setText } from "./dom.js";
import { figuresText } from "./figures.js";
import { count, printable } from "./text.js";

const MOST = 50; // of a list; the rest is counted
const state = { hot: null };
let parts = null;
let open = () => {};

/** Build the panel; `onOpen(id, name)` is called for a selected host. */
export function startDecisions(onOpen) {
  open = onOpen;
  parts = {
    blind: element("p", { class: "wrong", hidden: true }), maintenance: element("p", { hidden: true }),
    movesTitle: element("h3", {}, "Proposed moves"), moves: element("ol"),
    hotTitle: element("h3", {}, "Hot hosts"), hot: element("ul"),
    suspect: more("suspect"), saturated: more("saturated"), refused: more("refused"), abstained: more("abstained"),
  };
  byId("decisions").append(
    parts.blind, parts.maintenance, parts.movesTitle, parts.moves, parts.hotTitle, parts.hot, parts.suspect.node, parts.saturated.node,
    parts.refused.node, parts.abstained.node,
  );
}

export function showHot(document) {
  state.hot = document;
  setText(byId("rule"), `rule: ${document.rule.title}`);
  setText(parts.hotTitle, document.hot ? listed(document.hot, "hot host") : "Hot hosts: unknown, none can be judged");
  keyed(parts.hot, (document.hot ?? []).slice(0, MOST), (row) => row.id, hotCard, updateHot);
  const reason = (row) => `${printable(row.host)}: ${printable(row.reason)}`;
  fill(parts.suspect, document.suspect ?? [], (row) => row.id, reason, "suspect: beyond a limit, not confirmed yet");
  fill(parts.saturated, document.saturated ?? [], (row) => row.id, reason, "saturated without harm: busy, nothing waits");
  fill(parts.abstained, document.abstained, (row) => row.id, abstention, "abstained: the rule cannot tell");
}

export function showMoves(document) {
  parts.blind.hidden = !document.blind;
  setText(parts.blind, document.blind ? `No moves can be proposed: ${document.blind}` : "");
  parts.maintenance.hidden = !document.maintenance?.length;
  setText(parts.maintenance, `In maintenance: ${named((document.maintenance ?? []).map(printable))}`);
  setText(parts.movesTitle, document.moves ? listed(document.moves, "proposed move") : "Moves: unknown");
  keyed(parts.moves, (document.moves ?? []).slice(0, MOST), (row) => `${row.vm.id} ${row.destination.id}`, moveCard, updateMove);
  const name = (row) => (row.vm ? `${printable(row.vm.name)} on ${printable(row.host)}` : printable(row.host));
  fill(parts.refused, document.refused ?? [], (row) => `${row.host_id} ${row.vm?.id} ${row.reason}`, (row) => `${name(row)}: ${printable(row.reason)}`, `considered and not moved: ${named((document.refused ?? []).map(name))}`);
}

const named = (names) => names.slice(0, 3).join(", ") + (names.length > 3 ? ", …" : "");
const cut = (rows) => (rows.length > MOST ? ` (the first ${MOST})` : "");
const listed = (rows, noun) => count(rows.length, noun) + cut(rows);

/** Host and reason; the reason may begin with the name. */
const abstention = ({ host, state, reason }) =>
  printable(reason.startsWith(`${host} is `) ? reason : `${host} (${state}): ${reason}`);

/** The rule's result for a host: its verdict, null if judged and not hot, undefined while unknown. */
export function verdictOf(id) {
  if (!state.hot) return undefined;
  const { hot, suspect, saturated, abstained } = state.hot;
  return [hot, suspect, saturated, abstained].flatMap((rows) => rows ?? []).find((row) => row.id === id) ?? null;
}

function hotCard(row) {
  const name = element("button", { type: "button", class: "link route", onclick: () => open(row.id, row.host) });
  return element("li", { class: "card hot" }, name, element("p"), element("p", { class: "figures" }));
}

function updateHot(node, row) {
  const [name, reason, figures] = node.children;
  setText(name, printable(row.host));
  setText(reason, printable(row.reason));
  setText(figures, figuresText(row.figures));
}

function moveCard() {
  const why = ["why this host", "why this VM", "why there", "what it costs"].flatMap((label) => [element("dt", {}, label), element("dd")]);
  const figures = element("details", {}, element("summary", {}, "figures"), element("p", { class: "figures" }));
  return element("li", { class: "card move" }, element("p", { class: "route" }), element("dl", {}, ...why), figures);
}

function updateMove(node, row) {
  const [route, list, figures] = node.children;
  setText(route, `${printable(row.vm.name)}: ${printable(row.source.host)} → ${printable(row.destination.host)}`);
  const reasons = [row.why.host, row.why.vm, row.why.destination, row.why.cost];
  list.querySelectorAll("dd").forEach((place, index) => setText(place, printable(reasons[index].reason)));
  const known = hasCard(row);
  list.children[0].hidden = known;
  list.children[1].hidden = known;
  setText(figures.lastChild, reasons.slice(known ? 1 : 0).map((each) => figuresText(each.figures)).filter(Boolean).join("; "));
}

/** Whether the card of a hot host already explains why the source of this move must give up VMs. */
const hasCard = ({ source, why }) =>
  (state.hot?.hot ?? []).slice(0, MOST).some((hot) => hot.id === source.id && hot.reason === why.host.reason);

function more(label) {
  const [title, list] = [element("summary", {}, label), element("ul")];
  return { node: element("details", { hidden: true }, title, list), title, list };
}

function fill(part, rows, keyOf, textOf, label) {
  part.node.hidden = rows.length === 0;
  setText(part.title, `${rows.length} ${label}${cut(rows)}`);
  const shown = new Map(rows.slice(0, MOST).map((row) => [keyOf(row), row]));
  keyed(part.list, [...shown.values()], keyOf, () => element("li"), (node, row) => setText(node, textOf(row)));
}
