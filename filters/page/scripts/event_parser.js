// Server-sent events from pieces of text (HTML standard, section 9.2). Pure: no network.

/** Returns a function that takes pieces of text and calls `onEvent(name, data)` for each whole event. */
export function eventParser(onEvent) {
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
