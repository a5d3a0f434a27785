// Which columns stand where, and the bars that say where time goes.
import { colour, element } from "/page.js";
import { Chart } from "/chart.js";

const SECTIONS = [
  ["Return", (name) => /^(return_mean|eval\/|episode\/|league\/)/.test(name)],
  ["Events", (name) => /^(events|share)\//.test(name)],
  ["Actions", (name) => /^actions?\//.test(name)],
  ["Learning", (name) => name.startsWith("loss/")],
  ["Speed", (name) => name === "steps_per_second" || name.startsWith("time/")],
  ["Machine", (name) => /^(memory|machine)\//.test(name)],
  ["More", () => true],
];
// what is looked at first stands first
const FIRST = [
  "return_mean", "eval/return_mean", "loss/policy", "loss/value", "loss/entropy", "loss/explained_variance",
  "loss/approx_kl", "steps_per_second",
];
const TIMES = ["time/environment", "time/policy", "time/learn", "time/copy"];

function order(a, b) {
  const place = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  return place(a) - place(b) || a.localeCompare(b);
}

export class Panels {
  constructor(range, zoomed) {
    this.range = range;
    this.zoomed = zoomed;
    this.charts = new Map();
    this.sections = new Map();
  }

  /** Panels of exactly these columns; those that stay are kept. */
  arrange(columns) {
    for (const [column, chart] of this.charts) {
      if (columns.has(column)) continue;
      chart.close();
      this.charts.delete(column);
    }
    const missing = [...columns].filter((column) => !this.charts.has(column));
    for (const column of missing) this.charts.set(column, new Chart(column, this.range, this.zoomed));
    if (missing.length) {
      for (const column of [...columns].sort(order)) {
        const title = SECTIONS.find(([, holds]) => holds(column))[0];
        this.section(title).append(this.charts.get(column).panel);
      }
    }
    for (const grid of this.sections.values()) grid.parentElement.hidden = !grid.childElementCount;
  }

  section(title) {
    if (!this.sections.has(title)) {
      const grid = element("div", { class: "grid" });
      this.sections.set(title, grid);
      const made = new Map([...this.sections].map(([name, child]) => [name, child.parentElement]));
      made.set(title, element("details", { open: true }, element("summary", {}, element("h2", {}, title)), grid));
      document.getElementById("panels").replaceChildren(
        ...SECTIONS.map(([name]) => made.get(name)).filter(Boolean),
      );
    }
    return this.sections.get(title);
  }
}

/** A bar a run: shares of time over its newest points, and what it says of them itself. */
export function draw_times(runs, states) {
  const bars = [];
  for (const run of runs) {
    const shares = TIMES.map((name) => run.recent(name) ?? 0);
    const sum = shares.reduce((a, b) => a + b, 0);
    if (sum <= 0) continue;
    const rest = Math.max(0, 1 - sum);
    const parts = [...TIMES.map((name) => name.slice(5)), "other"];
    const bar = element("div", { class: "bar", "aria-hidden": "true" });
    const words = element("div", { class: "parts" });
    [...shares, rest].forEach((share, i) => {
      const piece = element("span");
      piece.style.flexGrow = share;
      piece.style.background = colour(`curve-${[0, 3, 2, 1, 7][i]}`);
      bar.append(piece);
      const mark = element("span", { class: "swatch" });
      mark.style.borderColor = piece.style.background;
      words.append(element("span", {}, mark, `${parts[i]} ${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`));
    });
    const bound = states.get(run.name)?.bound_by;
    if (bound) words.append(element("span", {}, `bound by ${bound}`));
    bars.push(element("div", { class: "share" }, element("span", { class: "name" }, run.name), bar, words));
  }
  document.getElementById("time-section").hidden = !bars.length;
  document.getElementById("time-shares").replaceChildren(...bars);
}
