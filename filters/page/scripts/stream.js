// The live stream: connects, dispatches events, reconnects by itself. fetch instead of EventSource, which cannot
// send a token. Missed events are not requested: the newest picture comes first, plots read the past themselves.

import { request } from "./api.js";
import { printable } from "./text.js";

const SILENT_SECONDS = 15; // the service sends something at least every 10 s
const RETRY_SECONDS = [0.5, 1, 2, 3, 5];

/** Listen to topics forever. `onEvent(topic, document)`, `onOpen()`, `onClosed(reason, retrySeconds)`. */
export async function listen(topics, { onEvent, onOpen, onClosed }) {
  const path = `/v1/stream?${topics.map((topic) => `topic=${topic}`).join("&")}`;
  const parse = (name, text) => {
    const document = JSON.parse(text);
    try {
      onEvent(name, document);
    } catch (error) {
      console.error(error); // an error of the page is not one of the connection
    }
  };
  let failures = 0;
  for (;;) {
    let reason = "the service ended the stream";
    try {
      await read(path, parse, () => {
        failures = 0;
        onOpen();
      });
    } catch (error) {
      reason = error instanceof TypeError ? "the service is unreachable" : printable(error.message);
    }
    const seconds = RETRY_SECONDS[Math.min(failures, RETRY_SECONDS.length - 1)];
    failures += 1;
    onClosed(reason, seconds);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }
}

async function read(path, onEvent, onOpen) {
  const control = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => control.abort(new Error(`nothing was heard for ${SILENT_SECONDS} s`)), SILENT_SECONDS * 1000);
  };
  try {
    const response = await request(path, { signal: control.signal, headers: { Accept: "text/event-stream" } });
    onOpen();
    const push = eventParser(onEvent);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    heard();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      heard();
      push(piece.value);
    }
  } finally {
    clearTimeout(timer);
    control.abort();
  }
}

// Server-sent events from pieces of text (HTML standard, section 9.2). Pure: no network.

/** Returns a function that takes pieces of text and calls `onEvent(name, data)` for each complete event. */
function eventParser(onEvent) {
  let rest = "";
  let name = "";
  let data = [];
  return (piece) => {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (data.length) onEvent(name || "message", data.join("\n"));
        name = "";
        data = [];
      } else if (line.startsWith("event:")) name = line.slice(6).trimStart();
      else if (line.startsWith("data:")) data.push(line.charAt(5) === " " ? line.slice(6) : line.slice(5));
    }
  };
}
