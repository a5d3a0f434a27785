// The table of settings that differ between the runs that are shown.
import { element } from "/page.js";

export function draw_settings(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.settings ?? {})))];
  const differ = names.filter((name) => new Set(runs.map((run) => run.settings?.[name])).size > 1);
  const box = document.getElementById("settings");
  if (runs.length < 2 || !differ.length) {
    box.replaceChildren(
      element("p", { class: "faint" }, runs.length < 2 ? "Two runs beside each other are compared here." : "None: the runs have the same settings."),
    );
    return;
  }
  const head = element("tr", {}, element("th", { scope: "col" }, "setting"), ...runs.map((run) => element("th", { scope: "col" }, element("span", {}, run.name))));
  const rows = differ.map((name) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...runs.map((run) => element("td", {}, run.settings?.[name] ?? "-"))),
  );
  box.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}
