// What a policy made of a step: actions, value, what it saw and what of that mattered, layers.
import { axis_labels, colour, counted, element, short } from "/page.js";

const VALUE_STEPS = 200;
const VALUE_HEIGHT = 130;
const MOST_BARS = 48;
const $ = (id) => document.getElementById(id);

function share(probability) {
  return `${(100 * probability).toFixed(probability < 0.0995 ? 1 : 0)} %`;
}

// a bar from `low` to `high`, shares of its track
function track(low, high, name) {
  const piece = element("span");
  piece.style.left = `${100 * low}%`;
  piece.style.width = `${Math.max(0.5, 100 * (high - low))}%`;
  piece.style.background = colour(name);
  return element("span", { class: "track", "aria-hidden": "true" }, piece);
}

function bar(words, graphic, taken) {
  return element("li", taken ? { class: "taken" } : {}, element("span", {}, words), graphic);
}

function category_bars(frame, { heads, names }) {
  const bars = [];
  let begin = 0;
  heads.forEach((count, head) => {
    const first = begin;
    const number = (k) => (heads.length > 1 ? `${head}/${k}` : `${k}`);
    const name = (k) => (names.length ? `${number(k)} ${names[first + k]}` : number(k));
    const all = frame.probs.slice(begin, begin + count).map((p, k) => ({ p: p ?? 0, k }));
    const shown = all.length > MOST_BARS ? all.sort((a, b) => b.p - a.p).slice(0, MOST_BARS) : all;
    for (const { p, k } of shown) {
      const taken = frame.action[head] === k;
      bars.push(bar(`${name(k)}: ${share(p)}${taken ? ", taken" : ""}`, track(0, p, taken ? "accent" : "faint"), taken));
    }
    begin += count;
  });
  return bars;
}

function number_bars(frame, about) {
  return frame.action.map((taken, d) => {
    const { low, high } = { low: about.low[d] ?? -1, high: about.high[d] ?? 1 };
    const place = (x) => Math.min(1, Math.max(0, (x - low) / (high - low)));
    const words = [`${d}: ${short(taken)}`];
    // a mark of its own width, at the bounds too
    const begin = 0.988 * place(taken);
    const graphic = track(begin, begin + 0.012, "accent");
    if (frame.mean) {
      const mean = frame.mean[d];
      const deviation = frame.deviation?.[d];
      words.push(deviation === undefined ? `mean ${short(mean)}` : `mean ${short(mean)} ± ${short(deviation)}`);
      const spread = track(place(mean - (deviation ?? 0)), place(mean + (deviation ?? 0)), "faint");
      graphic.prepend(spread.firstChild);
    }
    return bar(words.join(", "), graphic, false);
  });
}

export function draw_action(frame, about) {
  const shown = frame.acted && (frame.probs || frame.mean);
  $("action-panel").hidden = !shown;
  if (!shown) return;
  $("bars").classList.toggle("numbers", !frame.probs);
  $("bars").classList.toggle("named", about.names.length > 0);
  $("bars").replaceChildren(...(frame.probs ? category_bars(frame, about) : number_bars(frame, about)));
}

let plot = null;
let plotted = "";
/** Values of the steps up to `number`. */
export function draw_value(game, number) {
  const x = [];
  const y = [];
  for (let n = Math.max(game.first, number - VALUE_STEPS + 1); n <= number; n++) {
    const frame = game.frame(n);
    if (!frame) continue;
    x.push(n);
    y.push(frame.value ?? null);
  }
  const shown = y.some((value) => value !== null);
  const box = $("value");
  $("value-panel").hidden = !shown;
  if (!shown || !box.clientWidth) return;
  const newest = y.findLast((value) => value !== null);
  box.setAttribute("aria-label", `Value: ${short(newest)} now, ${x.length} steps shown`);
  const kind = `${box.clientWidth} ${colour("curve-0")}`;
  if (plotted !== kind) {
    plotted = kind;
    plot?.destroy();
    const lines = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 0.5 }, ticks: { show: false } };
    plot = new uPlot(
      {
        width: box.clientWidth,
        height: VALUE_HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false } },
        series: [{}, { stroke: colour("curve-0"), width: 1.5, points: { show: false } }],
        axes: [{ ...lines, size: 26, space: 70 }, { ...lines, size: 56, values: (_, all) => axis_labels(all) }],
      },
      [x, y],
      box,
    );
  } else {
    plot.setData([x, y]);
  }
}

function rgb(name) {
  const text = colour(name).slice(1);
  return [0, 2, 4].map((i) => parseInt(text.slice(i, i + 2), 16));
}

/** A canvas of width x height pixels, `of(i)` their [r, g, b]. */
function picture(width, height, of, name, words) {
  const canvas = element("canvas", { class: name, width, height, role: "img", "aria-label": words });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    const [r, g, b] = of(i);
    image.data.set([r, g, b, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function mixed(from, to, part) {
  return from.map((v, k) => v + (to[k] - v) * part);
}

const largest = (values) => values.reduce((most, v) => Math.max(most, Math.abs(v ?? 0)), 1e-12);

// channels as colours, three as red, green and blue, many as their sum
function seen_colours(input, places) {
  const channels = input.shape[0];
  const scale = Math.max(1, largest(input.seen));
  const value = (c, i) => Math.max(0, (input.seen[c * places + i] ?? 0) / scale);
  if (channels === 3) return (i) => [0, 1, 2].map((c) => 255 * value(c, i));
  if (channels === 1 || channels > 8) {
    const all = [...Array(channels).keys()];
    const sums = [...Array(places).keys()].map((i) => all.reduce((sum, c) => sum + value(c, i), 0));
    // of many channels few are set at a place: the brightest is white
    const most = channels === 1 ? 1 : largest(sums);
    return (i) => Array(3).fill((255 * sums[i]) / most);
  }
  const tints = [...Array(channels).keys()].map((c) => rgb(`tint-${c}`));
  return (i) => {
    let [r, g, b] = [0, 0, 0];
    tints.forEach((tint, c) => {
      r += tint[0] * value(c, i);
      g += tint[1] * value(c, i);
      b += tint[2] * value(c, i);
    });
    return [r, g, b].map((v) => Math.min(255, v));
  };
}

// the picture in grey, what raised the answer and what lowered it laid over it
function overlay(input, how) {
  const [, height, width] = input.shape;
  const places = width * height;
  const mattered = input[how];
  const most = largest(mattered);
  const base = seen_colours(input, places);
  const [raises, lowers] = [rgb("raises"), rgb("lowers")];
  const grey = (i) => Array(3).fill(0.5 * base(i).reduce((a, v) => a + v / 3, 0));
  const strongest = mattered.reduce((best, v, i) => (Math.abs(v) > Math.abs(mattered[best]) ? i : best), 0);
  const where = `row ${Math.floor(strongest / width) + 1}, column ${(strongest % width) + 1}`;
  const seen = picture(width, height, base, "seen", `${input.name}: ${width} by ${height}, as it is seen`);
  const over = picture(
    width,
    height,
    (i) => mixed(grey(i), mattered[i] > 0 ? raises : lowers, Math.sqrt(Math.abs(mattered[i]) / most)),
    "seen mattered",
    `${input.name}: what mattered; most of all ${where}, ${short(mattered[strongest])}`,
  );
  return [seen, " ", over];
}

function entries(input, how) {
  const mattered = input[how];
  const most = largest(mattered);
  let order = mattered.map((_, i) => i);
  if (order.length > MOST_BARS) {
    order = order.sort((a, b) => Math.abs(mattered[b]) - Math.abs(mattered[a])).slice(0, MOST_BARS);
  }
  const bars = order.map((i) => {
    const part = (0.5 * mattered[i]) / most;
    const graphic = track(Math.min(0.5, 0.5 + part), Math.max(0.5, 0.5 + part), part > 0 ? "raises" : "lowers");
    return bar(`${i}: ${short(input.seen[i])}, ${short(mattered[i])}`, graphic, false);
  });
  const which = bars.length < mattered.length ? `The ${bars.length} of ${mattered.length} numbers that mattered most` : "Each number";
  const words = `${which}: its place, what was seen, and how much it mattered.`;
  return [element("p", { class: "faint" }, words), element("ul", { class: "bars numbers mattered" }, ...bars)];
}

function strip(layer) {
  const most = largest(layer.values);
  const [raises, lowers, back] = [rgb("raises"), rgb("lowers"), rgb("raised")];
  const low = Math.min(...layer.values);
  const high = Math.max(...layer.values);
  const what = layer.shape.length > 1 ? `${counted(layer.shape[0], "channel")} of ${layer.shape.slice(1).join(" × ")}` : counted(layer.shape[0], "unit");
  const words = `${layer.name}: ${what}, ${short(low)} to ${short(high)}`;
  const of = (i) => mixed(back, layer.values[i] > 0 ? raises : lowers, Math.abs(layer.values[i]) / most);
  return [element("h3", {}, words), picture(layer.values.length, 1, of, "strip", words)];
}

export function draw_insight(insight, how) {
  $("layer-panel").hidden = !insight.layers.length;
  $("layers").replaceChildren(...insight.layers.flatMap(strip));
  $("input-panel").hidden = !insight.inputs.length;
  if (!insight.inputs.length) return;
  $("inputs").replaceChildren(
    ...insight.inputs.flatMap((input) => [
      element("h3", {}, input.name),
      ...(input.shape.length === 3 ? overlay(input, how) : entries(input, how)),
    ]),
  );
  const name = insight.question[0].toUpperCase() + insight.question.slice(1);
  const sum = insight.inputs.flatMap((input) => input.integrated).reduce((a, b) => a + b, 0);
  $("sum").textContent =
    how === "integrated"
      ? `${name}, ${short(insight.asked)}, is ${short(insight.baseline)} where nothing is seen and ${short(sum)} of what is shown (exactly ${short(insight.asked - insight.baseline)}). Orange raised it, blue lowered it.`
      : `${name}, ${short(insight.asked)}, would rise with more of what is orange and fall with more of what is blue.`;
}
