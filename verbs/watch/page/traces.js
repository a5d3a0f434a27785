// The page of traces: chooses one, asks for boxes of the view, finds names, and lists self times.
import { ask, counted, element, repeat, short } from "/page.js";
import { Flame, time } from "/flame.js";

const REST_MS = 60; // a view that rests so long is asked for
const TABLE_MS = 250;
const LIST_MS = 2000;
const MOST_ASKED = 50; // of the newest runs, for one that has traces
const $ = (id) => document.getElementById(id);

// what the address keeps: #run=a&trace=iter_5.json.gz&low=0&high=1000&find=gemm
const kept = new URLSearchParams(location.hash.slice(1));
let question = null; // {run, trace} that is shown
let showing = null; // the same and when it was written, also while it is read or where it cannot be
let last_found = -1; // where the last found span begins

function keep() {
  if (!question) return;
  const words = new URLSearchParams(question);
  if (!flame.whole) words.set("low", flame.low), words.set("high", flame.high);
  if ($("find").value) words.set("find", $("find").value);
  history.replaceState(null, "", "#" + words);
}

function tell(error) {
  $("notices").replaceChildren(...(error ? [element("p", {}, error.message)] : []));
}

function described(box) {
  const [, , begin, length, , spans, , covered, details] = box;
  const share = `at ${time(begin)}`;
  if (spans > 1) return `${short(spans)} spans in ${time(length)}, ${time(covered)} of it; most of ${flame.name(box)}; ${share}`;
  return `${flame.name(box)}: ${time(length)} ${share}${details ? "; " + details : ""}`;
}

const flame = new Flame($("view"), $("canvas"), $("room"), {
  moved: () => (keep(), update()),
  pointed: (box, x, y) => {
    $("tip").hidden = !box;
    if (!box) return;
    $("tip").textContent = described(box);
    $("tip").style.left = Math.max(4, Math.min(x + 14, innerWidth - $("tip").offsetWidth - 4)) + "px";
    $("tip").style.top = Math.max(4, Math.min(y + 16, innerHeight - $("tip").offsetHeight - 4)) + "px";
  },
  picked: (box) => ($("picked").textContent = box ? described(box) : ""),
});

// one question at a time; what was asked meanwhile is asked once it is answered
let resting = 0;
let asking = false;
let again = false;
let tabling = 0;
function update() {
  $("whole").disabled = !question || flame.whole;
  clearTimeout(resting);
  resting = setTimeout(update_boxes, REST_MS);
  clearTimeout(tabling);
  tabling = setTimeout(update_table, TABLE_MS);
}
async function update_boxes() {
  if (!question) return;
  if (asking) return void (again = true);
  asking = true;
  const asked = question;
  const find = $("find").value;
  // a little of both sides, for what moves
  const more = 0.3 * (flame.high - flame.low);
  const view = { low: Math.max(0, flame.low - more), high: flame.high + more };
  try {
    const width = Math.round(1.6 * flame.width * (window.devicePixelRatio || 1));
    const answer = await ask("/api/boxes", { ...asked, low: view.low, high: view.high, width, find });
    if (asked === question) flame.set_boxes(answer, find !== "");
    tell(null);
  } catch (error) {
    tell(error);
  }
  asking = false;
  if (again) {
    again = false;
    update_boxes();
  }
}
async function update_table() {
  if (!question) return;
  const asked = question;
  const { low, high } = flame;
  try {
    const { rows } = await ask("/api/self", { ...asked, low, high });
    if (asked !== question) return;
    const whole = rows.reduce((sum, row) => sum + row.self, 0);
    const cells = (row) => [
      element("td", { class: "name" }, element("button", { type: "button", class: "row-name", onclick: () => search(row.name) }, row.name)),
      ...[short(row.calls), time(row.self), ((100 * row.self) / (whole || 1)).toFixed(1) + " %", time(row.self / row.calls)].map((text) =>
        element("td", { class: "number" }, text),
      ),
    ];
    const heads = ["calls", "self", "share", "self each"].map((text) => element("th", { class: "number", scope: "col" }, text));
    $("self").replaceChildren(
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "name"), ...heads)),
        element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))),
      ),
    );
  } catch (error) {
    tell(error);
  }
}

function search(text) {
  $("find").value = text;
  searched();
}
async function searched() {
  last_found = -1;
  keep();
  update();
  const find = $("find").value;
  $("next").disabled = !find;
  $("found").textContent = "";
  if (!find || !question) return;
  try {
    const { spans, total } = await ask("/api/find", { ...question, find });
    if (find === $("find").value) $("found").textContent = spans ? `${counted(spans, "span")}, ${time(total)}` : "no span of that name";
    $("next").disabled = !spans;
  } catch (error) {
    tell(error);
  }
}
async function go_next() {
  const find = $("find").value;
  if (!find || !question) return;
  try {
    const { next } = await ask("/api/find", { ...question, find, after: last_found });
    if (!next) return;
    last_found = next.begin;
    flame.reveal(next);
  } catch (error) {
    tell(error);
  }
}

async function show_trace(run, name) {
  const wanted = showing;
  question = null;
  flame.show(null);
  $("self").replaceChildren();
  $("picked").textContent = "";
  $("state").textContent = `reading ${name}`;
  try {
    const asked = { run, trace: name };
    const trace = await ask("/api/trace", asked);
    if (wanted !== showing) return;
    const processes = new Set(trace.tracks.map((track) => track.pid));
    for (const track of trace.tracks) {
      track.title = (processes.size > 1 ? `${track.process} (${track.pid}) · ` : "") + (track.device ? "stream " : "") + track.name;
    }
    question = asked;
    flame.show(trace);
    const about = [time(trace.length), counted(trace.spans, "span"), counted(trace.tracks.filter((t) => t.rows).length, "thread")];
    if (trace.about.algorithm) about.unshift(`${trace.about.algorithm} on ${trace.about.environment}`);
    if (trace.about.dropped) about.push(`${trace.about.dropped} dropped`);
    if (trace.about.counters && trace.about.counters !== "counted") about.push(trace.about.counters.split(";")[0]);
    if (!trace.whole) about.push("its begin: the rest does not fit");
    if (trace.torn) about.push("it ends in the middle of an event");
    $("state").textContent = about.join(" · ");
    $("canvas").setAttribute("aria-label", `Spans of ${name}: ${about.join(", ")}`);
    const low = Number(kept.get("low") ?? 0) || 0;
    const high = Number(kept.get("high") ?? 0) || trace.length;
    flame.go(low, high);
    searched();
    tell(null);
  } catch (error) {
    if (wanted !== showing) return;
    $("state").textContent = "";
    tell(error);
  }
}

// what can be chosen: [value, text] each. One that is open stays so where nothing is new
function offer(select, choices) {
  const texts = choices.map(([, text]) => text);
  if (texts.join("\n") === [...select.options].map((option) => option.textContent).join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...choices.map(([value, text]) => element("option", { value }, text)));
  if (choices.some(([value]) => value === chosen)) select.value = chosen;
}

// those of the chosen run; what is shown stays while it is there
async function list_traces() {
  const run = $("run").value;
  const { traces } = run ? await ask("/api/traces", { run }) : { traces: [] };
  if (run !== $("run").value) return;
  offer($("trace"), traces.map((trace) => [trace.name, `${trace.name} (${short(trace.bytes)}B)`]));
  const asked = question?.run === run ? question.trace : kept.get("trace");
  const wanted = traces.find((trace) => trace.name === asked) ?? traces[0];
  $("perfetto").hidden = !wanted?.perfetto;
  $("newest").hidden = wanted === traces[0];
  $("newest").value = $("newest").hidden ? "" : traces[0].name;
  $("newest").textContent = "newest: " + $("newest").value;
  if (wanted) {
    $("trace").value = wanted.name;
    $("perfetto").href = "/perfetto?" + new URLSearchParams({ run, trace: wanted.name });
    $("perfetto").setAttribute("download", wanted.name.replace(/\.json(\.gz)?$/, ".perfetto"));
  }
  const found = [run, wanted?.name, wanted?.written].join("\n");
  if (found === showing) return;
  showing = found;
  if (wanted) return show_trace(run, wanted.name);
  question = null;
  flame.show(null);
  $("self").replaceChildren();
  $("state").textContent = "this run has no traces: trace.window=50-55 records some";
}

// most runs have none
async function newest_traced(runs) {
  for (const run of runs.slice(0, MOST_ASKED)) {
    const { traces } = await ask("/api/traces", { run: run.name });
    if (traces.length) return run;
  }
}

// another choice begins with the whole of it
function choose(words) {
  for (const name of ["run", "trace", "low", "high"]) kept.delete(name);
  for (const [name, value] of Object.entries(words)) kept.set(name, value);
  question = showing = null;
  list_traces().catch(tell);
}

// what has come since; until a run is chosen, the newest that has traces
let unheard = false;
async function look() {
  try {
    const { runs } = await ask("/api/runs");
    offer($("run"), runs.map((run) => [run.name, run.name]));
    // one may be chosen while this waits
    const chosen = () => runs.find((run) => run.name === kept.get("run"));
    const newest = chosen() || question ? null : await newest_traced(runs);
    const wanted = chosen() ?? newest;
    if (wanted) $("run").value = wanted.name;
    await list_traces();
    if (unheard) tell(null);
    unheard = false;
  } catch (error) {
    if (!unheard) tell(error);
    unheard = true;
  }
}

$("run").addEventListener("change", () => choose({ run: $("run").value }));
$("trace").addEventListener("change", () => choose({ run: $("run").value, trace: $("trace").value }));
$("newest").addEventListener("click", () => choose({ run: $("run").value, trace: $("newest").value }));
$("whole").addEventListener("click", () => flame.go(0, Infinity));
$("next").addEventListener("click", go_next);
$("find").addEventListener("input", searched);
$("find").addEventListener("keydown", (event) => event.key === "Enter" && go_next());
$("view").addEventListener("keydown", (event) => event.key === "Enter" && go_next());
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, select")) return;
  event.preventDefault();
  $("find").focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => flame.draw());

$("find").value = kept.get("find") ?? "";
repeat(look, () => LIST_MS);
