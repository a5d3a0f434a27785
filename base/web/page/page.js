// What all pages share: asking the server, making elements, numbers for people.

/** Nobody is there to be asked. */
export class NoAnswer extends Error {}

/** The answer to a question, as JSON. Throws an Error with what the server said, NoAnswer where it says nothing. */
export async function ask(path, parameters = {}) {
  let response;
  try {
    response = await fetch(path + "?" + new URLSearchParams(parameters));
  } catch {
    throw new NoAnswer("the server does not answer: the command that showed this address has ended, or the connection to it");
  }
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

// a page is what its address says; what it writes there itself is no such event
addEventListener("hashchange", () => location.reload());

/** <tag attributes>children</tag>; texts are texts, never markup. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const LARGE = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
const HUGE = 1e12;

function rounded(number, digits) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "-";
  const size = Math.abs(number);
  if (size >= HUGE) return number.toExponential(digits - 2);
  for (const [unit, letter] of LARGE) {
    if (size >= unit) return String(Number((number / unit).toPrecision(digits))) + letter;
  }
  return size !== 0 && size < 1e-4 ? number.toExponential(digits - 2) : String(Number(number.toPrecision(digits)));
}

/** 1200 as "1.2k"; null as "-". */
export const short = (number) => rounded(number, 4);

/** "1 run", "2 runs". */
export const counted = (number, thing) => `${short(number)} ${thing}${number === 1 ? "" : "s"}`;

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

/** Seconds as "40 s", "3.5 min", "2 h". */
export function duration(seconds, decimals = 1) {
  if (!Number.isFinite(seconds)) return "-";
  const [size, unit] = UNITS.find(([least]) => Math.abs(seconds) >= least) ?? [1, "s"];
  return `${Number((seconds / size).toFixed(decimals))} ${unit}`;
}

// with as many digits as tell them apart
function told_apart(numbers, least, text) {
  for (let digits = least; ; digits++) {
    const texts = numbers.map((number) => text(number, digits));
    if (digits === 12 || new Set(texts).size >= new Set(numbers).size) return texts;
  }
}

/** An axis's numbers. */
export const axis_labels = (numbers) => told_apart(numbers, 4, rounded);

/** An axis's seconds. */
export const axis_durations = (numbers) => told_apart(numbers, 1, duration);

/** A colour of the style sheet, as it is now. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/** Calls `work` again and again, `pause` milliseconds after it was done, while the page is seen. */
export function repeat(work, pause) {
  const turn = async () => {
    if (!document.hidden) await work();
    setTimeout(turn, pause());
  };
  document.addEventListener("visibilitychange", () => document.hidden || work());
  turn();
}
