// Spans by thread over time, on a canvas: boxes as the server made them for a view, drawn again in any
// other view until the server's answer for it is there.
import { colour } from "/page.js";

const ROW = 17; // pixels of a row of boxes
const TITLE = 18; // of a thread's name
const RULER = 20;
const COLOURS = 8;
const LEAST_NS = 50; // the narrowest view

const UNITS = [[1e9, "s", 3], [1e6, "ms", 3], [1e3, "µs", 1]]; // ns, and decimals that are enough for a length

function unit_of(ns) {
  return UNITS.find(([least]) => Math.abs(ns) >= least) ?? [1, "ns", 0];
}

/** ns for people. */
export function time(ns) {
  const [size, unit, decimals] = unit_of(ns);
  return `${(ns / size).toFixed(decimals)} ${unit}`;
}

/** A place on a ruler whose marks are `step` ns apart: with the decimals that tell them apart, and no more. */
export function mark(ns, step) {
  const [size, unit] = unit_of(ns);
  return ns === 0 ? "0" : `${(ns / size).toFixed(Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9)))} ${unit}`;
}

const colour_of = new Map();
function colour_number(name) {
  if (!colour_of.has(name)) {
    let hash = 0;
    for (let i = 0; i < name.length; ++i) hash = (31 * hash + name.charCodeAt(i)) >>> 0;
    colour_of.set(name, hash % COLOURS);
  }
  return colour_of.get(name);
}

export class Flame {
  /** `moved` is called when another view is shown, `pointed(box, x, y)` when the pointer is on another box, null on
   * none, and `picked(box)` when one is clicked. */
  constructor(view, canvas, room, { moved, pointed, picked }) {
    this.view = view;
    this.canvas = canvas;
    this.room = room;
    this.moved = moved;
    this.pointed = pointed;
    this.picked = picked;
    this.pointers = new Map();
    this.show(null);
    this.listen();
  }

  /** Another trace: {length, tracks}; null: none. */
  show(trace) {
    this.trace = trace;
    this.boxes = [];
    this.names = [];
    this.low = 0;
    this.high = trace?.length ?? 1;
    this.searching = false;
    // where each thread stands; those without spans nowhere
    this.tops = [];
    let top = RULER;
    for (const track of trace?.tracks ?? []) {
      this.tops.push(track.rows ? top : -1);
      if (track.rows) top += TITLE + track.rows * ROW + 4;
    }
    this.height = top;
    this.room.style.height = top + "px";
    // no higher than its threads; the style bounds it
    this.view.style.height = top + 2 + "px";
    this.view.scrollTop = 0;
    this.draw();
  }

  set_boxes({ boxes, names }, searching) {
    this.boxes = boxes;
    this.names = names;
    this.searching = searching;
    this.draw();
  }

  get width() {
    return Math.max(1, this.view.clientWidth);
  }
  get whole() {
    return this.low === 0 && this.high === (this.trace?.length ?? 1);
  }

  /** Shows [low, high) as far as the trace has it. */
  go(low, high) {
    if (!this.trace) return;
    const length = this.trace.length;
    const wide = Math.min(length, Math.max(LEAST_NS, high - low));
    this.low = Math.round(Math.min(Math.max(0, low), length - wide));
    this.high = Math.round(this.low + wide);
    this.draw();
    this.moved();
  }
  zoom(factor, x = this.width / 2) {
    const at = this.low + (x / this.width) * (this.high - this.low);
    this.go(at - (at - this.low) * factor, at + (this.high - at) * factor);
  }
  pan(pixels) {
    const ns = (pixels / this.width) * (this.high - this.low);
    this.go(this.low + ns, this.high + ns);
  }
  /** Shows a span a third of the view wide, and its thread. */
  reveal({ track, depth, begin, length }) {
    const wide = Math.max(LEAST_NS, 3 * length);
    const top = this.tops[track] + TITLE + depth * ROW;
    if (top < this.view.scrollTop + RULER || top + ROW > this.view.scrollTop + this.view.clientHeight)
      this.view.scrollTop = top - this.view.clientHeight / 2;
    this.go(begin + length / 2 - wide / 2, begin + length / 2 + wide / 2);
  }

  place(ns) {
    return ((ns - this.low) / (this.high - this.low)) * this.width;
  }

  /** The box under a point of the view; null: none. */
  at(x, y) {
    const scrolled = y + this.view.scrollTop;
    if (y < RULER) return null;
    for (const box of this.boxes) {
      const top = this.tops[box[0]] + TITLE + box[1] * ROW;
      if (scrolled < top || scrolled >= top + ROW) continue;
      const left = this.place(box[2]);
      if (x >= left - 0.5 && x < Math.max(left + 1, this.place(box[2] + box[3])) + 0.5) return box;
    }
    return null;
  }

  name(box) {
    return this.names[box[4]];
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    const [width, height] = [this.width, this.view.clientHeight];
    const ratio = window.devicePixelRatio || 1;
    const canvas = this.canvas;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = height + "px";
    }
    const to = canvas.getContext("2d");
    to.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [back, raised, line, text, faint, accent] = ["back", "raised", "line", "text", "faint", "accent"].map(colour);
    const fills = Array.from({ length: COLOURS }, (_, i) => colour("curve-" + i));
    to.fillStyle = back;
    to.fillRect(0, 0, width, height);
    if (!this.trace) return;
    const scrolled = this.view.scrollTop;

    // spans
    to.font = "12px system-ui, sans-serif";
    to.textBaseline = "middle";
    for (const box of this.boxes) {
      const top = this.tops[box[0]] + TITLE + box[1] * ROW - scrolled;
      if (top + ROW < RULER || top > height) continue;
      const left = this.place(box[2]);
      const right = Math.max(left + 1, this.place(box[2] + box[3]));
      if (right < 0 || left > width) continue;
      const from = Math.max(left, 0);
      const wide = Math.min(right, width) - from;
      const name = this.names[box[4]];
      const dim = this.searching && !box[6];
      // of neighbours drawn as one, how much of them there is
      const full = box[5] > 1 ? Math.max(0.25, box[7] / Math.max(1, box[3])) : 1;
      to.globalAlpha = (dim ? 0.12 : 0.42) * full;
      to.fillStyle = fills[colour_number(name)];
      to.fillRect(from, top, Math.max(1, wide - (wide > 3 ? 1 : 0)), ROW - 1);
      to.globalAlpha = 1;
      if (this.searching && box[6] && wide > 2) {
        to.strokeStyle = accent;
        to.strokeRect(from + 0.5, top + 0.5, wide - 2, ROW - 2);
      }
      if (wide > 34 && box[5] === 1) {
        to.fillStyle = dim ? faint : text;
        let shown = name;
        const room = Math.floor((wide - 6) / 6.2);
        if (shown.length > room) shown = shown.slice(0, Math.max(1, room - 1)) + "…";
        to.fillText(shown, from + 3, top + ROW / 2, wide - 4);
      }
    }

    // threads
    this.trace.tracks.forEach((track, i) => {
      if (this.tops[i] < 0) return;
      const top = this.tops[i] - scrolled;
      if (top + TITLE < RULER || top > height) return;
      to.fillStyle = raised;
      to.fillRect(0, top, width, TITLE - 1);
      to.fillStyle = text;
      to.fillText(track.title, 4, top + TITLE / 2);
    });

    // ruler: ticks at 1, 2 or 5 times a power of ten
    to.fillStyle = back;
    to.fillRect(0, 0, width, RULER);
    const rough = ((this.high - this.low) / width) * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    to.fillStyle = faint;
    to.strokeStyle = line;
    to.beginPath();
    for (let at = Math.ceil(this.low / step) * step; at <= this.high; at += step) {
      const x = Math.round(this.place(at)) + 0.5;
      to.moveTo(x, 0);
      to.lineTo(x, RULER);
      to.fillText(mark(at, step), x + 3, RULER / 2);
    }
    to.moveTo(0, RULER - 0.5);
    to.lineTo(width, RULER - 0.5);
    to.stroke();
  }

  listen() {
    const view = this.view;
    new ResizeObserver(() => (this.draw(), this.moved())).observe(view);
    view.addEventListener("scroll", () => this.draw());
    view.addEventListener(
      "wheel",
      (event) => {
        if (event.altKey) return; // goes through threads
        event.preventDefault();
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX || event.deltaY);
        else this.zoom(1.0015 ** event.deltaY, event.clientX - view.getBoundingClientRect().left);
      },
      { passive: false },
    );
    view.addEventListener("keydown", (event) => {
      const done = () => event.preventDefault();
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "+" || event.key === "w") done(), this.zoom(0.7);
      else if (event.key === "-" || event.key === "s") done(), this.zoom(1 / 0.7);
      else if (event.key === "ArrowLeft" || event.key === "a") done(), this.pan(-0.15 * this.width);
      else if (event.key === "ArrowRight" || event.key === "d") done(), this.pan(0.15 * this.width);
      else if (event.key === "0") done(), this.go(0, Infinity);
    });
    // one pointer moves, two zoom
    const spread = () => {
      const [a, b] = [...this.pointers.values()];
      return { middle: (a.x + b.x) / 2, apart: Math.max(20, Math.abs(a.x - b.x)) };
    };
    view.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.offsetX >= view.clientWidth) return;
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      this.dragged = 0;
      this.canvas.setPointerCapture?.(event.pointerId);
    });
    view.addEventListener("pointermove", (event) => {
      const frame = view.getBoundingClientRect();
      const before = this.pointers.get(event.pointerId);
      if (!before) {
        this.pointed(this.at(event.clientX - frame.left, event.clientY - frame.top), event.clientX, event.clientY);
        return;
      }
      const old = this.pointers.size === 2 ? spread() : null;
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      this.dragged += Math.abs(event.clientX - before.x) + Math.abs(event.clientY - before.y);
      this.pointed(null);
      if (old) {
        const now = spread();
        this.zoom(old.apart / now.apart, now.middle - frame.left);
        this.pan(old.middle - now.middle);
      } else if (this.dragged > 3) {
        view.scrollTop -= event.clientY - before.y;
        this.pan(before.x - event.clientX);
      }
    });
    const up = (event) => {
      if (!this.pointers.delete(event.pointerId) || this.dragged > 3 || event.type !== "pointerup") return;
      const frame = view.getBoundingClientRect();
      this.picked(this.at(event.clientX - frame.left, event.clientY - frame.top));
    };
    view.addEventListener("pointerup", up);
    view.addEventListener("pointercancel", up);
    view.addEventListener("pointerleave", () => this.pointed(null));
    view.addEventListener("dblclick", (event) => {
      const frame = view.getBoundingClientRect();
      const box = this.at(event.clientX - frame.left, event.clientY - frame.top);
      if (box) this.go(box[2] - 0.1 * box[3], box[2] + 1.1 * box[3]);
    });
  }
}
