// The figures of an explanation, in words.

import { getJson } from "./api.js";
import { age, present, quantity } from "./text.js";

/** `busy 93 % (VALID, 0.8 s old), limit 80 %`. */
export function figuresText(figures) {
  return figures.map(one).join(", ");
}

function one(figure) {
  const label = figure.name.replaceAll("_", " ");
  const quality = figure.validity ? ` (${figure.validity}, ${age(figure.age_seconds)} old)` : "";
  return `${label} ${figure.value === null ? "missing" : quantity(figure.value, figure.unit)}${quality}`;
}

// Figures of further kernels, kept by the filter in addition to mean, deviation, trend and raw value.

/** The extra figures listed by /v1/figures. */
export const extraFigures = async () => (await getJson("/v1/figures")).figures.filter((figure) => figure.extra);

/** The figure of a reading in its unit; null if it is missing. */
export function figureText(figure, reading) {
  const value = reading?.extra?.[figure.name];
  const unit = (figure.unit ?? reading?.unit ?? "") + (figure.per_second ? "/s" : "");
  return present(value) ? quantity(value, unit) : null;
}
