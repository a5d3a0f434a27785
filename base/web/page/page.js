// What all pages share: asking the server, making elements, numbers for people.

/** The answer to a question, as JSON. Throws an Error with what the server said. */
export async function ask(path, parameters = {}) {
  const response = await fetch(path + "?" + new URLSearchParams(parameters));
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

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

function rounded(number, digits) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "-";
  const size = Math.abs(number);
  for (const [unit, letter] of LARGE) {
    if (size >= unit) return String(Number((number / unit).toPrecision(digits))) + letter;
  }
  return size !== 0 && size < 1e-4 ? number.toExponential(digits - 2) : String(Number(number.toPrecision(digits)));
}

/** 1200 as "1.2k"; null as "-". */
export const short = (number) => rounded(number, 4);

/** An axis's numbers, with as many digits as tell them apart. */
export function axis_labels(numbers) {
  for (let digits = 4; ; digits++) {
    const texts = numbers.map((number) => rounded(number, digits));
    if (digits === 12 || new Set(texts).size >= new Set(numbers).size) return texts;
  }
}

/** Seconds as "40 s", "3.5 min", "2 h". */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "-";
  if (seconds >= 86400) return Number((seconds / 86400).toFixed(1)) + " d";
  if (seconds >= 3600) return Number((seconds / 3600).toFixed(1)) + " h";
  if (seconds >= 60) return Number((seconds / 60).toFixed(1)) + " min";
  return Number(seconds.toPrecision(3)) + " s";
}

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
