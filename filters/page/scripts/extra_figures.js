// The figures of further kernels, which the filter keeps beside mean, deviation, trend and raw value.

import { getJson } from "./api.js";
import { present, quantity } from "./text.js";

/** Those that there are, as /v1/figures lists them. */
export const extraFigures = async () => (await getJson("/v1/figures")).figures.filter((figure) => figure.extra);

/** The figure of a reading in its unit; null where it is missing. */
export function figureText(figure, reading) {
  const value = reading?.extra?.[figure.name];
  const unit = (figure.unit ?? reading?.unit ?? "") + (figure.per_second ? "/s" : "");
  return present(value) ? quantity(value, unit) : null;
}
