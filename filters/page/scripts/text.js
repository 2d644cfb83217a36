// Numbers and names for display. A missing value is a word, never 0.

// Control and format characters (bidirectional ones among them), lone surrogates, private use, line and paragraph ends.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A name without characters that hide, break or reverse it: a process may have any name. */
export const printable = (text) => String(text).replace(UNSEEN, "\ufffd");

/** At most `length` characters, with an ellipsis if text is cut. */
export function shortened(text, length) {
  const letters = Array.from(printable(text));
  return letters.length <= length ? letters.join("") : letters.slice(0, Math.max(1, length - 1)).join("") + "…";
}

export const present = (value) => typeof value === "number" && Number.isFinite(value);

/** A ratio as a percentage; `missing` if there is none. */
export const percent = (ratio, digits = 0) => (present(ratio) ? `${(ratio * 100).toFixed(digits)}\u00a0%` : "missing");

/** A number of cores, always with the same number of digits. */
export const cores = (value) => (present(value) ? value.toFixed(2) : "missing");

/** A value in its unit with about three significant digits. */
export function quantity(value, unit = "") {
  if (!present(value)) return "missing";
  if (unit === "ratio") return percent(value, Math.abs(value) < 0.0995 ? 1 : 0);
  if (unit.startsWith("bytes")) return `${scaled(value)}${unit.slice(5)}`;
  if (unit === "cores") return `${cores(value)} cores`;
  const plain = Math.abs(value) >= 1000 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3);
  return unit && unit !== "count" ? `${plain} ${unit}` : plain;
}

function scaled(value) {
  let power = 0;
  while (Math.abs(value) >= 1023.5 && power < BINARY.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${power === 0 || Math.abs(value) >= 99.95 ? value.toFixed(0) : value.toPrecision(3)} ${BINARY[power]}`;
}

/** An age: `0.6 s`, `45 s`, `3 min`, `2.1 h`; `unknown age` if there is none. */
export function age(seconds) {
  if (!present(seconds)) return "unknown age";
  if (Math.abs(seconds) < 10) return `${seconds.toFixed(1)} s`;
  if (Math.abs(seconds) < 120) return `${seconds.toFixed(0)} s`;
  return Math.abs(seconds) < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** `1 host`, `2 hosts`. */
export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
