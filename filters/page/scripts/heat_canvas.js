// Drawing the tiles. Colours are one pixel per tile; only changed ones are written, and the whole image is
// enlarged in one step: ten thousand tiles cost as much as ten. Hatches, frames and words are drawn on top.

import { css, darkText, palette, step } from "./scale.js";
import { percent, shortened } from "./text.js";
import { rectangle } from "./tiles.js";

const LEAST_WORD = 28; // minimum of CSS pixels of a tile with a number
const LEAST_NAME = 34; // minimum height, for a name above it

export class HeatCanvas {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", { alpha: false });
    this.small = document.createElement("canvas");
    this.grid = null;
  }

  /** Set a new geometry and theme: everything is redrawn. `colours`: panel, hatch, missing, bad, focus. */
  shape(grid, theme, colours) {
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this, { grid, theme, colours });
    this.canvas.width = Math.max(1, Math.round(grid.columns * grid.wide * ratio));
    this.canvas.height = Math.max(1, Math.round(grid.height * ratio));
    this.canvas.style.width = `${grid.columns * grid.wide}px`;
    this.canvas.style.height = `${grid.height}px`;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.small.width = grid.columns;
    this.small.height = grid.rows;
    this.dots = this.small.getContext("2d");
    this.image = this.dots.createImageData(grid.columns, grid.rows);
    this.words = new Uint32Array(this.image.data.buffer);
    this.hatch = hatch(this.pen, colours);
    this.drawn = "";
  }

  /** Draw a model; does nothing if nothing changed. `focus` is a position or -1, `chosen` a host or -1. */
  draw(model, focus, chosen) {
    if (!this.grid) return;
    const { missing, hot, down, changed, marks } = this.colourTiles(model);
    const drawn = `${focus} ${chosen} ${marks}`;
    if (!changed && drawn === this.drawn) return;
    this.drawn = drawn;
    this.dots.putImageData(this.image, 0, 0);
    const { pen, grid } = this;
    pen.fillStyle = this.colours.panel;
    pen.fillRect(0, 0, grid.columns * grid.wide, grid.height);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.small, 0, 0, grid.columns * grid.wide, grid.rows * grid.high);
    this.fillPlaces(missing, this.hatch);
    this.drawGaps();
    this.drawDown(down);
    if (grid.wide >= LEAST_WORD) this.drawWords(model);
    this.frame(hot, this.colours.bad, grid.high >= 15 ? 2 : 1);
    if (focus >= 0) this.frame([focus], this.colours.focus, 3);
    else if (chosen >= 0) this.frame([model.order.indexOf(chosen)], this.colours.focus, 2);
  }

  /** Write the changed pixels; returns the places that need more than a colour. */
  colourTiles(model) {
    const colours = palette(this.theme);
    const values = model.heat?.[model.metric];
    const found = { missing: [], hot: [], down: [], changed: false, marks: 0 };
    for (let place = 0; place < model.order.length; place += 1) {
      const host = model.order[place];
      const value = values ? values[host] : null;
      let word = 0;
      if (value === null || value === undefined) found.missing.push(place);
      else word = colours[step(value)];
      if (model.heat?.outcomes[host] === "h") found.hot.push(place);
      if (model.heat?.states[host] === "d") found.down.push(place);
      const code = (model.heat?.states.charCodeAt(host) ?? 0) * 256 + (model.heat?.outcomes.charCodeAt(host) ?? 0);
      found.marks = (Math.imul(found.marks, 31) + host * 65536 + code) | 0;
      if (this.words[place] !== word) {
        this.words[place] = word;
        found.changed = true;
      }
    }
    return found;
  }

  fillPlaces(places, fill) {
    if (!places.length) return;
    this.pen.beginPath();
    for (const place of places) this.pen.rect(...rectangle(this.grid, place));
    this.pen.fillStyle = fill;
    this.pen.fill();
  }

  drawGaps() {
    const { pen, grid } = this;
    pen.fillStyle = this.colours.panel;
    for (let column = 1; column <= grid.columns; column += 1) pen.fillRect(column * grid.wide - grid.gap, 0, grid.gap, grid.height);
    for (let row = 1; row <= grid.rows; row += 1) pen.fillRect(0, row * grid.high - grid.gap, grid.columns * grid.wide, grid.gap);
  }

  /** A cross over hosts that are down. */
  drawDown(places) {
    const { pen } = this;
    pen.beginPath();
    for (const place of places) {
      const [left, top, width, height] = rectangle(this.grid, place);
      pen.moveTo(left, top);
      pen.lineTo(left + width, top + height);
      pen.moveTo(left + width, top);
      pen.lineTo(left, top + height);
    }
    pen.strokeStyle = this.colours.missing;
    pen.lineWidth = 1;
    pen.stroke();
  }

  frame(places, colour, thickness) {
    const { pen } = this;
    pen.beginPath();
    for (const place of places) {
      const [left, top, width, height] = rectangle(this.grid, place);
      pen.rect(left + thickness / 2, top + thickness / 2, width - thickness, height - thickness);
    }
    pen.strokeStyle = colour;
    pen.lineWidth = thickness;
    pen.stroke();
  }

  drawWords(model) {
    const { pen, grid } = this;
    const named = grid.high >= LEAST_NAME && grid.wide >= 60;
    const letters = Math.floor((grid.wide - 14) / 7);
    pen.textBaseline = "middle";
    for (let place = 0; place < model.order.length; place += 1) {
      const host = model.order[place];
      const [left, top, width, height] = rectangle(grid, place);
      const value = model.value(host);
      const text = value === null ? wordOf(model, host) : named ? percent(value / 1000) : String(Math.round(value / 10));
      const middle = top + height / 2;
      if (value === null) this.plate(left, top, width, height, named ? this.widest(model.names[host], letters, text) : width);
      pen.fillStyle = value === null ? this.colours.text : darkText(this.theme, value / 1000) ? "#000000" : "#ffffff";
      pen.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
      pen.textAlign = named ? "left" : "center";
      pen.fillText(text, named ? left + 7 : left + width / 2, named ? middle + 9 : middle + 1, width - 6);
      if (named) {
        pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
        pen.fillText(fitting(model.names[host], letters), left + 7, middle - 8, width - 10);
      }
    }
  }

  /** The larger width of a name and the word below it. */
  widest(name, letters, word) {
    this.pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
    const above = this.pen.measureText(fitting(name, letters)).width;
    this.pen.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
    return Math.max(54, above + 8, this.pen.measureText(word).width + 8);
  }

  /** A plain background for words on a hatch, which remains visible around them. */
  plate(left, top, width, height, words) {
    const wide = Math.min(width - 8, words);
    this.pen.fillStyle = this.colours.plate;
    this.pen.fillRect(left + (words < width ? 4 : (width - wide) / 2), top + 4, wide, height - 8);
  }
}

/** A name, without its domain if it does not fit otherwise. */
function fitting(name, letters) {
  return shortened(name.length > letters ? name.split(".")[0] || name : name, letters);
}

/** Reason a tile has no value, in one word. */
export const wordOf = (model, host) => (["late", "unknown", "down"].includes(model.state(host)) ? model.state(host) : "missing");

/** A small sample of a kind of tile, for the legend: `load`, `missing`, `down`, `hot`. */
export function swatch(kind, theme, colours) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [kind === "load" ? 96 : 18, 12];
  canvas.setAttribute("aria-hidden", "true");
  const pen = canvas.getContext("2d");
  if (kind === "load") {
    for (let x = 0; x < 96; x += 1) {
      pen.fillStyle = css(theme, x / 95);
      pen.fillRect(x, 0, 1, 12);
    }
    return canvas;
  }
  pen.fillStyle = kind === "hot" ? css(theme, 0.95) : hatch(pen, colours);
  pen.fillRect(0, 0, 18, 12);
  pen.strokeStyle = kind === "hot" ? colours.bad : colours.missing;
  pen.lineWidth = kind === "hot" ? 3 : 1;
  if (kind === "hot") pen.strokeRect(1, 1, 16, 10);
  if (kind === "down") pen.stroke(new Path2D("M0 0L18 12M18 0L0 12"));
  return canvas;
}

function hatch(pen, colours) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const small = tile.getContext("2d");
  small.fillStyle = colours.plate;
  small.fillRect(0, 0, 6, 6);
  small.strokeStyle = colours.hatch;
  small.lineWidth = 1.5;
  small.stroke(new Path2D("M-1 7L7 -1M-1 1L1 -1M5 7L7 5"));
  return pen.createPattern(tile, "repeat");
}
