// The figures of an explanation, in words.

import { age, quantity } from "./text.js";

/** `busy 93 % (VALID, 0.8 s old), limit 80 %`. */
export function figuresText(figures) {
  return figures.map(one).join(", ");
}

function one(figure) {
  const label = figure.name.replaceAll("_", " ");
  const quality = figure.validity ? ` (${figure.validity}, ${age(figure.age_seconds)} old)` : "";
  return `${label} ${figure.value === null ? "missing" : quantity(figure.value, figure.unit)}${quality}`;
}
