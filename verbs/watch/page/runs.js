// The list of runs: search, order, and which of them are shown.
import { element, short } from "/page.js";

const MOST_LISTED = 200;
const $ = (id) => document.getElementById(id);

const orders = {
  started: (a, b) => b.started - a.started,
  name: (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }),
  return_mean: (a, b) => (b.return_mean ?? -Infinity) - (a.return_mean ?? -Infinity),
  steps: (a, b) => b.steps - a.steps,
  state: (a, b) => a.state.localeCompare(b.state) || b.started - a.started,
};

export class RunList {
  /** `changed` is called when other runs are to be shown. */
  constructor(chosen, changed) {
    this.runs = [];
    this.chosen = chosen;
    this.changed = changed;
    this.drawn = "";
    $("search").addEventListener("input", () => this.draw());
    $("sort").addEventListener("change", () => this.draw());
    $("choose").addEventListener("click", () => this.choose(this.found().slice(0, MOST_LISTED)));
    $("clear").addEventListener("click", () => this.choose([]));
  }

  set(runs) {
    this.runs = runs;
    this.draw();
  }

  choose(runs) {
    this.chosen.clear();
    for (const run of runs) this.chosen.add(run.name);
    this.draw();
    this.changed();
  }

  /** Runs that hold every word of the search, in the order that is set. */
  found() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const holds = (run) => {
      const text = [run.name, run.algo, run.env, run.state].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    };
    return this.runs.filter(holds).sort(orders[$("sort").value]);
  }

  draw() {
    const found = this.found();
    const listed = found.slice(0, MOST_LISTED);
    $("more").textContent =
      found.length > listed.length ? `and ${found.length - listed.length} more: the search narrows them` : "";
    $("choose").disabled = found.length === 0;
    // an unchanged list keeps the focus
    const now = JSON.stringify([listed, [...this.chosen]]);
    if (now === this.drawn) return;
    this.drawn = now;
    const focused = document.activeElement?.dataset?.run;
    $("list").replaceChildren(...listed.map((run) => this.item(run)));
    if (focused) $("list").querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
  }

  item(run) {
    const box = element("input", {
      type: "checkbox",
      "data-run": run.name,
      onchange: () => {
        if (box.checked) this.chosen.add(run.name);
        else this.chosen.delete(run.name);
        this.changed();
      },
    });
    box.checked = this.chosen.has(run.name);
    const state = element("span", run.state === "failed" ? { class: "warn" } : {}, run.state);
    const steps = short(run.steps) + (run.total_steps > run.steps ? ` of ${short(run.total_steps)}` : "");
    const reached = run.return_mean === null ? "no episode has ended" : `return ${short(run.return_mean)}`;
    const about = [`${run.algo} on ${run.env} · `, state, ` · ${steps} steps · ${reached}`];
    return element(
      "li",
      {},
      element(
        "label",
        {},
        box,
        element("span", { class: "name" }, run.name),
        element("span", { class: "about", title: run.message }, ...(run.algo ? about : [state])),
      ),
    );
  }
}
