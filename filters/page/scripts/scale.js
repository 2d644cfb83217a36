// Colours of load: from calm blue over amber to red, distinguishable without seeing red and green. A missing value has
// no colour of the scale: it is hatched grey.

const STOPS = {
  light: [[0, 228, 236, 246], [0.5, 150, 187, 226], [0.7, 244, 200, 98], [0.85, 232, 116, 50], [1, 176, 18, 44]],
  dark: [[0, 31, 42, 62], [0.5, 56, 98, 152], [0.7, 196, 146, 46], [0.85, 222, 96, 40], [1, 255, 66, 92]],
};
const STEPS = 100;
const known = {};

/** Colours of 0 to 100 per cent as little-endian RGBA words for image data; higher values get the last one. */
export function palette(theme) {
  known[theme] ??= Uint32Array.from({ length: STEPS + 1 }, (_, step) => word(mixed(STOPS[theme], step / STEPS)));
  return known[theme];
}

/** The colour of a ratio as CSS text. */
export function css(theme, ratio) {
  const [red, green, blue] = mixed(STOPS[theme], ratio);
  return `rgb(${red} ${green} ${blue})`;
}

/** Whether black text on the colour of a ratio has more contrast than white: 4.5 to 1 at least (WCAG 2, 1.4.3). */
export function darkText(theme, ratio) {
  const [red, green, blue] = mixed(STOPS[theme], ratio).map(linear);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179; // sqrt(1.05 * 0.05) - 0.05
}

/** Linear light of an sRGB channel. */
function linear(channel) {
  const part = channel / 255;
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}

/** Index into the palette of a value in thousandths. */
export const step = (thousandths) => Math.max(0, Math.min(STEPS, Math.round(thousandths / 10)));

function mixed(stops, ratio) {
  const place = Math.max(0, Math.min(1, ratio));
  const upper = Math.max(1, stops.findIndex((stop) => stop[0] >= place));
  const [low, high] = [stops[upper - 1], stops[upper]];
  const part = (place - low[0]) / (high[0] - low[0]);
  return [1, 2, 3].map((channel) => Math.round(low[channel] + (high[channel] - low[channel]) * part));
}

const word = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
