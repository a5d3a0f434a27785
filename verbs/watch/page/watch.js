// The page of maglev watch: asks for runs and curves, and draws what changed.
import { NoAnswer, ask, colour, counted, element, repeat } from "/page.js";
import { RunCurves, curves_of, extent, groups_of } from "/curves.js";
import { Panels, draw_times } from "/panels.js";
import { RunList } from "/runs.js";
import { draw_settings } from "/settings.js";

const LIST_MS = 5000;
const CURVES_MS = 2000;
const FIRST_RUNS = 6; // shown at first, and the other seeds of the last of them
const $ = (id) => document.getElementById(id);

// what the address keeps: #run=a&run=b&axis=seconds&low=10&high=60
const kept = new URLSearchParams(location.hash.slice(1));
const chosen = new Set(kept.getAll("run"));
const view = {
  axis: kept.get("axis") === "seconds" ? "seconds" : "step",
  smoothing: Number(kept.get("smoothing") ?? 0) || 0,
  together: kept.get("seeds") !== "apart",
  range: ["low", "high"].map((end) => Number(kept.get(end) ?? NaN)),
};
if (!(view.range[0] < view.range[1])) view.range = null;
$("axis").value = view.axis;
$("smoothing").value = view.smoothing;
$("group").checked = view.together;
$("metrics").value = kept.get("metrics") ?? "";

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
  if (view.range) words.set("low", view.range[0]), words.set("high", view.range[1]);
  if ($("metrics").value) words.set("metrics", $("metrics").value);
  history.replaceState(null, "", "#" + words);
}

function shown() {
  const runs = [...open.values()].filter((run) => chosen.has(run.name) && run.settings);
  return runs.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
}

// what these runs' column is of; nothing where they differ
function label_of(runs, column) {
  const labels = new Set(runs.filter((run) => run.columns.has(column)).map((run) => states.get(run.name)?.labels?.[column] ?? ""));
  return labels.size === 1 ? [...labels][0] : "";
}

function draw() {
  const runs = shown();
  const groups = groups_of(runs, view.together);
  const columns = [...new Set(runs.flatMap((run) => [...run.columns.keys()]))];
  const words = $("metrics").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = columns.filter((column) => words.every((word) => column.toLowerCase().includes(word)));
  panels.arrange(new Set(wanted));
  for (const [column, chart] of panels.charts) {
    chart.call(label_of(runs, column));
    chart.draw(curves_of(groups, column, view), view.axis);
  }
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
    ...(run.rows === 0 && states.get(run.name)?.state === "running" ? [`${run.name} has written no metrics yet`] : []),
    ...(run.rows && run.read < 1 ? [`${run.name}: ${Math.floor(100 * run.read)} % read, the rest is a sample`] : []),
  ]);
  if (listed && !chosen.size) notices.push("No run is shown: choose some from the list.");
  if (columns.length && !wanted.length) notices.push(`No metric has "${$("metrics").value}" in its name.`);
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
    say(`${counted(runs.length, "run")}, ${training} training`, false);
    if (!listed) {
      listed = true;
      update_curves();
    }
  } catch (error) {
    say(error.message, true);
  }
}

function say(text, wrong) {
  $("state").textContent = text;
  $("state").classList.toggle("warn", wrong);
}

// one at a time: a question waits until the one before it was answered
let updating = false;
let reading = false; // more of a file can be had at once
async function update_curves() {
  if (updating) return;
  updating = true;
  reading = false;
  let changed = false;
  let more_runs = false;
  for (const name of chosen) {
    if (!open.has(name)) open.set(name, new RunCurves(name));
    const run = open.get(name);
    const written = states.get(name)?.updated;
    // a run that ended is asked once more, then no longer
    if (run.read === 1 && run.written === written && states.get(name)?.state !== "running") continue;
    try {
      changed = (await run.update()) || changed;
      run.written = written;
      reading ||= run.read < 1;
      if (!run.drawn) changed = more_runs = run.drawn = true;
    } catch (error) {
      // the list says so, and asks again
      if (error instanceof NoAnswer) break;
      if (run.problem !== error.message) changed = true;
      run.problem = error.message;
      run.settings ??= {};
    }
  }
  updating = false;
  if (changed) draw();
  if (more_runs && view.range) refine();
}

function chosen_changed() {
  keep();
  draw();
  update_curves();
}

function zoom(range) {
  view.range = range && within(range);
  keep();
  draw();
  refine();
}

// no wider than what there is, and nowhere else; null: the whole of it
function within([low, high]) {
  const whole = extent(shown(), view.axis);
  const wide = high - low;
  if (!whole || wide >= whole[1] - whole[0]) return null;
  const begin = Math.min(Math.max(low, whole[0]), whole[1] - wide);
  return [begin, begin + wide];
}

// finer points once the range rests
let resting = 0;
function refine() {
  clearTimeout(resting);
  resting = setTimeout(async () => {
    await Promise.allSettled(shown().map((run) => run.zoom(view.axis, view.range)));
    draw();
  }, 250);
}

$("axis").addEventListener("change", (event) => {
  view.axis = event.target.value;
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
$("metrics").addEventListener("input", () => {
  keep();
  draw();
});
$("whole").addEventListener("click", () => zoom(null));
$("skip").addEventListener("click", () => $("board").focus());
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, select")) return;
  event.preventDefault();
  $("search").focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

repeat(update_list, () => LIST_MS);
repeat(update_curves, () => (reading ? 0 : CURVES_MS));
