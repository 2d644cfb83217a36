// The page: one stream in, panels out.

import { getJson } from "./api.js";
import { watchConnection } from "./connection.js";
import { showHot, showMoves, startDecisions } from "./decisions_panel.js";
import { byId } from "./dom.js";
import { startHealth } from "./health_panel.js";
import { HeatView } from "./heat_view.js";
import { HostPanel } from "./host_panel.js";
import { goTo, startRouter } from "./router.js";
import { listen } from "./stream.js";
import { showSummary } from "./summary.js";
import { startTheme } from "./theme.js";

startTheme(byId("theme"));
const connection = watchConnection();
const heat = new HeatView((id) => goTo(id));
const panel = new HostPanel(() => goTo(""));
startDecisions((id) => goTo(id));
let askingRoster = false;
let pending = null;

async function takeHeat(document) {
  if (heat.setHeat(document)) return;
  pending = document; // the hosts have changed: request their names
  if (askingRoster) return;
  askingRoster = true;
  try {
    heat.setRoster(await getJson("/v1/roster"));
    heat.setHeat(pending);
    heat.select(panel.id);
  } catch {
    // the next tick requests it again; the stream reports when the service is unavailable
  } finally {
    askingRoster = false;
  }
}

const topics = {
  tick: (document) => {
    connection.tick(document);
    showSummary(document);
    panel.refresh();
  },
  heat: takeHeat,
  hot: showHot,
  moves: showMoves,
  trouble: (document) => connection.trouble(document.detail || document.title),
};

startRouter((id) => {
  const known = heat.model.ids.indexOf(id);
  panel.open(id, known < 0 ? "" : heat.model.names[known]);
  heat.select(id);
  if (id) byId("host").focus({ preventScroll: false });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && panel.id) {
    goTo("");
    byId("heat").focus();
  }
});
byId("metric").addEventListener("change", (event) => heat.choose({ metric: event.target.value }));
byId("order").addEventListener("change", (event) => heat.choose({ sorting: event.target.value }));
byId("find").addEventListener("input", (event) => heat.choose({ text: event.target.value }));
startHealth();
listen(Object.keys(topics).filter((topic) => topic !== "trouble"), {
  onEvent: (topic, document) => topics[topic]?.(document),
  onOpen: () => connection.opened(),
  onClosed: (reason) => connection.closed(reason),
});
