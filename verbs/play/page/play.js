// The page of maglev play: which step of which game is shown, and when the next one is.
import { ask, element, short } from "/page.js";
import { Game } from "/game.js";
import { draw_action, draw_insight, draw_value } from "/policy.js";

const SPEEDS = [1, 2, 5, 10, 20, 50]; // steps a second, and what the environment names
const RETRY_MS = 1000;
const AHEAD_S = 1.5; // of play that is fetched before it is shown
const $ = (id) => document.getElementById(id);

// what the address keeps: #seed=7&actions=sample
const kept = new URLSearchParams(location.hash.slice(1));
const view = { playing: true, speed: 10, number: 0, waiting: true, due: 0, again: 0 };
let about = null;
let game = null;

function tell(error) {
  $("state").textContent = error ? error.message : "";
}

function begin(key) {
  game = new Game(key, () => (view.number = 0));
  view.number = 0;
  view.waiting = true;
  $("seed").value = key.seed;
  $("actions").value = key.actions;
  history.replaceState(null, "", "#" + new URLSearchParams(key));
}

function draw() {
  const frame = game.frame(view.number);
  if (!frame) return;
  const returns = frame.returns.map(short).join(", ");
  $("picture").src = frame.picture;
  $("picture").alt = `${about.env} at step ${frame.step} of episode ${frame.episode}, return ${returns}`;
  const rows = {
    step: `${frame.step} of episode ${frame.episode}${frame.over ? ", its last" : ""}`,
    action: frame.acted ? frame.action.map(short).join(", ") : "none: the episode has ended",
    reward: frame.acted ? frame.rewards.map(short).join(", ") : "-",
    return: returns,
    value: frame.value === undefined ? null : short(frame.value),
    counted: frame.events || null,
  };
  const shown = Object.entries(rows).filter(([, text]) => text !== null);
  $("numbers").replaceChildren(...shown.flatMap(([name, text]) => [element("dt", {}, name), element("dd", { "data-name": name }, text)]));
  $("place").min = game.first;
  $("place").max = game.next - 1;
  $("place").value = view.number;
  $("place").setAttribute("aria-valuetext", `step ${frame.step} of episode ${frame.episode}`);
  $("back").disabled = view.number <= game.first;
  $("toggle").textContent = view.playing ? "pause" : "play";
  $("policy").hidden = frame.probs === undefined && frame.mean === undefined && frame.acted;
  // not every policy has a value to ask for
  if (frame.acted) $("of-value").disabled = frame.value === undefined;
  if ($("of-value").disabled) $("of").value = "action";
  draw_action(frame, about);
  draw_value(game, view.number);
  look();
}

// one question at a time, about what is shown when it is asked
let looking = false;
let looked = "";
async function look() {
  const frame = game.frame(view.number);
  const of = $("of").value;
  const wanted = `${game.game} ${view.number} ${of} ${$("how").value}`;
  if (looking || looked === wanted || !frame?.acted || (!frame.probs && !frame.mean)) return;
  looking = true;
  let pause = 50;
  try {
    const insight = await game.insight(view.number, of);
    draw_insight(insight, $("how").value);
    looked = wanted;
  } catch (error) {
    tell(error);
    pause = RETRY_MS;
  } finally {
    looking = false;
  }
  setTimeout(look, pause);
}

function go(number) {
  const to = Math.max(game.first, number);
  if (to >= game.next) {
    view.waiting = true; // shown once it is here
    view.number = game.next;
  } else {
    view.number = to;
    draw();
  }
}

function play(playing) {
  view.playing = playing;
  view.due = performance.now() + 1000 / view.speed;
  $("toggle").textContent = playing ? "pause" : "play";
}

function step(by) {
  play(false);
  go(view.number + by);
}

function change_speed(by) {
  const place = SPEEDS.indexOf(view.speed) + by;
  view.speed = SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, place))];
  $("speed").value = view.speed;
}

async function fetch_ahead(until) {
  try {
    if (await game.fetch(until)) tell(null);
  } catch (error) {
    tell(error);
    view.again = performance.now() + RETRY_MS;
  }
}

// as often as the screen is drawn; not at all while nobody sees it
function turn(now) {
  requestAnimationFrame(turn);
  const ahead = view.playing ? Math.ceil(AHEAD_S * view.speed) : 1;
  if (now >= view.again) fetch_ahead(view.number + 1 + ahead);
  if (view.number < game.first) view.number = game.first;
  if (view.waiting && game.frame(view.number)) {
    view.waiting = false;
    view.due = now + 1000 / view.speed;
    draw();
  } else if (view.playing && now >= view.due && game.frame(view.number + 1)) {
    view.number += 1;
    // behind after a pause: not faster than it should be
    view.due = Math.max(view.due + 1000 / view.speed, now);
    draw();
  }
}

const KEYS = {
  " ": () => play(!view.playing),
  ArrowLeft: () => step(-1),
  ArrowRight: () => step(1),
  Home: () => step(-Infinity),
  End: () => step(game.next - 1 - view.number),
  "+": () => change_speed(1),
  "=": () => change_speed(1),
  "-": () => change_speed(-1),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !game || !(event.key in KEYS)) return;
  // controls keep the keys that are theirs
  if (event.target.matches("input, select") || (event.key === " " && event.target.matches("button"))) return;
  event.preventDefault();
  KEYS[event.key]();
});
$("back").addEventListener("click", () => step(-1));
$("forward").addEventListener("click", () => step(1));
$("toggle").addEventListener("click", () => play(!view.playing));
$("speed").addEventListener("change", (event) => (view.speed = Number(event.target.value)));
$("place").addEventListener("input", (event) => {
  play(false);
  go(Number(event.target.value));
});
$("which").addEventListener("submit", (event) => {
  event.preventDefault();
  begin({ seed: Number($("seed").value), actions: $("actions").value });
});
for (const id of ["of", "how"]) $(id).addEventListener("change", look);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  looked = "";
  if (game) draw();
});
new ResizeObserver(() => game && draw_value(game, view.number)).observe($("value"));

// "a and 7 × greedy": several of one name stand together
function players_text(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${count} × ${name}` : name)).join(" and ");
}

async function start() {
  try {
    about = await ask("/api/about");
  } catch (error) {
    tell(error);
    return void setTimeout(start, RETRY_MS);
  }
  if (about.fps > 0) view.speed = about.fps;
  if (!SPEEDS.includes(view.speed)) SPEEDS.push(view.speed);
  SPEEDS.sort((a, b) => a - b);
  $("speed").append(...SPEEDS.map((speed) => element("option", { value: speed }, String(speed))));
  $("speed").value = view.speed;
  $("about").textContent = `${about.env}: ${players_text(about.players)}`;
  document.title = `Maglev: play ${about.env}`;
  begin({ seed: Number(kept.get("seed") ?? about.seed), actions: kept.get("actions") ?? about.actions });
  $("game").inert = false;
  requestAnimationFrame(turn);
}
start();
