// One panel: a column's curves by uPlot, their values in words below.
import { axis_durations, axis_labels, colour, duration, element, short } from "/page.js";

const HEIGHT = 170;
const STEP = 0.25; // of the range, a key

// uPlot's own, but that nothing but zeros is no range to 100
function heights(_, low, high) {
  if (low === null) return [null, null];
  return low === 0 && high === 0 ? [0, 1] : uPlot.rangeNum(low, high, 0.1, true);
}

export class Chart {
  /** `zoomed` is called with [low, high] or null; `range()` gives what is shown, null: everything. */
  constructor(column, range, zoomed) {
    this.column = column;
    this.range = range;
    this.zoomed = zoomed;
    this.box = element("div", { class: "chart", tabindex: "0", role: "img", "aria-label": column, onkeydown: (e) => this.key(e) });
    this.values = element("ul", { class: "values" });
    this.label = element("span");
    this.place = element("span", { class: "faint" });
    this.panel = element("section", { class: "panel", "data-column": column }, element("h3", {}, column, this.label, this.place), this.box, this.values);
    this.seen = false;
    this.waiting = null;
    new IntersectionObserver((entries) => {
      this.seen = entries.at(-1).isIntersecting;
      if (this.seen && this.waiting) this.draw(...this.waiting);
    }, { rootMargin: "200px" }).observe(this.panel);
    new ResizeObserver(() => {
      if (this.plot && this.box.clientWidth) this.plot.setSize({ width: this.box.clientWidth, height: HEIGHT });
    }).observe(this.box);
  }

  /** What the column is of, where its name does not say; "": it does. */
  call(label) {
    this.label.textContent = label && ` ${label}`;
  }

  /** What is out of sight is drawn when it comes into sight. */
  draw(curves, axis) {
    this.waiting = [curves, axis];
    if (!this.seen || !this.box.clientWidth) return;
    this.waiting = null;
    this.curves = curves;
    this.axis = axis;
    const tables = curves.map((curve) => [curve.x, curve.mean, curve.low, curve.high]);
    const data = tables.length ? uPlot.join(tables, tables.map(() => [0, 2, 2, 2])) : [[], []];
    const kind = JSON.stringify([axis, curves.map((c) => [c.label, colour(c.colour), c.dashed])]);
    if (this.kind === kind) {
      this.plot.setData(data);
    } else {
      this.kind = kind;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(curves, axis), data, this.box);
    }
    this.tell(null);
    const newest = curves.map((curve) => `${curve.label} ${short(curve.mean.findLast((v) => v !== null))}`);
    this.box.setAttribute("aria-label", `${this.column}: ${newest.join(", ")}`);
  }

  options(curves, axis) {
    const series = [{}];
    const bands = [];
    curves.forEach((curve) => {
      const stroke = colour(curve.colour);
      const mean = { stroke, width: 1.5, spanGaps: true, points: { show: curve.x.length < 2 }, dash: curve.dashed ? [6, 4] : [] };
      const bound = { stroke: "transparent", spanGaps: true, points: { show: false } };
      series.push(mean, bound, bound);
      bands.push({ series: [series.length - 1, series.length - 2], fill: stroke + "2e" });
    });
    const lines = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 0.5 }, ticks: { show: false } };
    return {
      width: this.box.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      scales: { x: { time: false, range: (_, low, high) => this.range() ?? [low, high] }, y: { range: heights } },
      series,
      bands,
      axes: [
        { ...lines, space: 70, size: 26, values: (_, all) => (axis === "step" ? axis_labels(all) : axis_durations(all)) },
        { ...lines, size: 56, values: (_, all) => axis_labels(all) },
      ],
      cursor: {
        sync: { key: "watch" },
        drag: { x: true, y: false, setScale: false },
        points: { show: false },
        bind: { dblclick: () => () => this.zoomed(null) },
      },
      hooks: {
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < 4) return;
            plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            this.zoomed([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
          },
        ],
        setCursor: [(plot) => this.tell(plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : null)],
      },
    };
  }

  // values below the cursor, none where a curve has not begun or has ended; without a cursor the newest
  tell(x) {
    this.place.textContent = x === null ? "" : this.axis === "step" ? `at ${short(x)} steps` : `at ${duration(x, 2)}`;
    this.values.replaceChildren(
      ...this.curves.map((curve) => {
        let i = curve.x.length - 1;
        if (x !== null) i = x > curve.x[i] ? -1 : curve.x.findLastIndex((there) => there <= x);
        const mark = element("span", { class: curve.dashed ? "swatch dashed" : "swatch" });
        mark.style.borderColor = colour(curve.colour);
        return element("li", { title: curve.label }, mark, short(curve.mean[i]));
      }),
    );
  }

  close() {
    this.plot?.destroy();
    this.panel.remove();
  }

  key(event) {
    if (!this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const { min, max } = this.plot.scales.x;
    const size = (max - min) * STEP;
    const ranges = {
      "+": [min + size, max - size],
      "=": [min + size, max - size],
      "-": [min - size, max + size],
      ArrowLeft: [min - size, max - size],
      ArrowRight: [min + size, max + size],
      0: null,
      Escape: null,
    };
    if (!(event.key in ranges)) return;
    event.preventDefault();
    this.zoomed(ranges[event.key]);
  }
}
