// The page of maglev watch: asks for runs and curves, and draws what changed.
import { ask, colour, element, repeat } from "/page.js";
import { RunCurves, curves_of, groups_of } from "/curves.js";
import { Panels, draw_times } from "/panels.js";
import { RunList } from "/runs.js";
import { draw_settings } from "/settings.js";

const LIST_MS = 5000;
const CURVES_MS = 2000;
const FIRST_RUNS = 6; // shown at first, and the other seeds of the last of them
const $ = (id) => document.getElementById(id);

// what the address keeps: #run=a&run=b&axis=seconds
const kept = new URLSearchParams(location.hash.slice(1));
const chosen = new Set(kept.getAll("run"));
const view = {
  axis: kept.get("axis") === "seconds" ? "seconds" : "step",
  smoothing: Number(kept.get("smoothing") ?? 0) || 0,
  together: kept.get("seeds") !== "apart",
  range: null,
};
$("axis").value = view.axis;
$("smoothing").value = view.smoothing;
$("group").checked = view.together;

const open = new Map(); // RunCurves by name
const states = new Map(); // of the list, by name
const panels = new Panels(() => view.range, zoom);
const list = new RunList(chosen, chosen_changed);
let listed = false;

function keep() {
  const words = new URLSearchParams();
  for (const name of chosen) words.append("run", name);
  if (view.axis !== "step") words.set("axis", view.axis);
  if (view.smoothing) words.set("smoothing", view.smoothing);
  if (!view.together) words.set("seeds", "apart");
  history.replaceState(null, "", "#" + words);
}

function shown() {
  const runs = [...open.values()].filter((run) => chosen.has(run.name) && run.settings);
  return runs.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
}

function draw() {
  const runs = shown();
  const groups = groups_of(runs, view.together);
  const columns = new Set(runs.flatMap((run) => [...run.columns.keys()]));
  panels.arrange(columns);
  for (const [column, chart] of panels.charts) chart.draw(curves_of(groups, column, view), view.axis);
  $("legend").replaceChildren(
    ...groups.map((group) => {
      const mark = element("span", { class: group.dashed ? "swatch dashed" : "swatch" });
      mark.style.borderColor = colour(group.colour);
      return element("li", {}, mark, group.label);
    }),
  );
  const notices = runs.flatMap((run) => [
    ...(run.problem ? [run.problem] : []),
    ...ended_otherwise(states.get(run.name)),
    ...(run.read < 1 ? [`${run.name}: ${Math.floor(100 * run.read)} % read, the rest is a sample`] : []),
  ]);
  $("notices").replaceChildren(...notices.map((text) => element("p", {}, text)));
  $("whole").disabled = !view.range;
  draw_times(runs, states);
  draw_settings(runs);
}

function messages() {
  return [...chosen].map((name) => states.get(name)?.message).join("\n");
}

// why a run failed, or what else it said at its end
function ended_otherwise(run) {
  return run?.message ? [`${run.name}, ${run.state}: ${run.message}`] : [];
}

// seeds that were trained together share what stands before their numbers; settings are not known yet
function family(name) {
  return name.replace(/(^|\/)seed-\d+$/, "$1seed-");
}

async function update_list() {
  try {
    const { runs } = await ask("/api/runs");
    const told = messages();
    for (const run of runs) states.set(run.name, run);
    // curves of a run that fails may have nothing new
    if (listed && messages() !== told) draw();
    if (!listed && !chosen.size) {
      const firsts = new Set(runs.slice(0, FIRST_RUNS).map((run) => family(run.name)));
      for (const run of runs) if (firsts.has(family(run.name))) chosen.add(run.name);
    }
    list.set(runs);
    const training = runs.filter((run) => run.state === "running").length;
    $("state").textContent = `${runs.length} ${runs.length === 1 ? "run" : "runs"}, ${training} training`;
    if (!listed) {
      listed = true;
      update_curves();
    }
  } catch (error) {
    $("state").textContent = `no answer: ${error.message}`;
  }
}

// one at a time: a question waits until the one before it was answered
let updating = false;
async function update_curves() {
  if (updating) return;
  updating = true;
  let changed = false;
  for (const name of chosen) {
    if (!open.has(name)) open.set(name, new RunCurves(name));
    const run = open.get(name);
    const written = states.get(name)?.updated;
    // a run that ended is asked once more, then no longer
    if (run.read === 1 && run.written === written && states.get(name)?.state !== "running") continue;
    try {
      changed = (await run.update()) || changed;
      run.written = written;
      if (run.rows === undefined || !run.drawn) changed = run.drawn = true;
    } catch (error) {
      if (run.problem !== error.message) changed = true;
      run.problem = error.message;
      run.settings ??= {};
    }
  }
  updating = false;
  if (changed) draw();
}

function chosen_changed() {
  keep();
  draw();
  update_curves();
}

let zooming = 0;
function zoom(range) {
  view.range = range;
  draw();
  // finer points once the range rests
  clearTimeout(zooming);
  zooming = setTimeout(async () => {
    await Promise.allSettled(shown().map((run) => run.zoom(view.axis, range)));
    draw();
  }, 250);
}

$("axis").addEventListener("change", (event) => {
  view.axis = event.target.value;
  keep();
  zoom(null);
});
$("smoothing").addEventListener("input", (event) => {
  view.smoothing = Number(event.target.value);
  keep();
  draw();
});
$("group").addEventListener("change", (event) => {
  view.together = event.target.checked;
  keep();
  draw();
});
$("whole").addEventListener("click", () => zoom(null));
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, select")) return;
  event.preventDefault();
  $("search").focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

repeat(update_list, () => LIST_MS);
repeat(update_curves, () => ([...chosen].some((name) => open.get(name)?.read < 1) ? 0 : CURVES_MS));
