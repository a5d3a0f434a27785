// Curves of runs: kept as the server told them, joined over seeds, smoothed.
import { NoAnswer, ask } from "/page.js";

const POINTS = 400;
const RECENT = 20;
const MEMBERS = ["step", "seconds", "low", "high", "mean"];

function empty() {
  return { final: 0, step: [], seconds: [], low: [], high: [], mean: [] };
}

/** A run's metrics. update() asks for what is new. */
export class RunCurves {
  constructor(name) {
    this.name = name;
    this.columns = new Map();
    this.generation = "";
    this.next = 0;
    this.read = 0;
    this.settings = null;
    this.detail = null;
    this.problem = "";
  }

  async update() {
    try {
      this.settings ??= (await ask("/api/settings", { run: this.name })).settings;
    } catch (error) {
      if (error instanceof NoAnswer) throw error;
      this.settings = {};
    }
    const answer = await ask("/api/curves", {
      run: this.name,
      points: POINTS,
      generation: this.generation,
      from: this.next,
    });
    if (answer.from === 0) this.columns.clear();
    for (const column of this.columns.values()) {
      for (const member of MEMBERS) column[member].length = column.final;
    }
    for (const [name, more] of Object.entries(answer.columns)) {
      if (!this.columns.has(name)) this.columns.set(name, empty());
      const column = this.columns.get(name);
      for (const member of MEMBERS) column[member].push(...more[member]);
      column.final += more.final;
    }
    const changed = answer.bytes !== this.bytes || answer.read !== this.read;
    Object.assign(this, { generation: answer.generation, next: answer.next, read: answer.read, bytes: answer.bytes });
    this.rows = answer.rows;
    this.problem = answer.damaged
      ? `${this.name}: ${answer.damaged} damaged ${answer.damaged > 1 ? "lines" : "line"} in metrics.jsonl, left out (${answer.named.join("; ")})`
      : "";
    return changed;
  }

  /** Finer points of a part, where points stand for several rows. */
  async zoom(axis, range) {
    this.detail = null;
    const most = Math.max(0, ...[...this.columns.values()].map((column) => column.mean.length));
    if (!range || this.rows <= most) return;
    const [low, high] = range;
    const answer = await ask("/api/part", { run: this.name, points: 2 * POINTS, axis, low, high });
    this.detail = { axis, low, high, columns: answer.columns };
  }

  /** A column's points along the axis, ascending. */
  points(name, axis) {
    const whole = this.columns.get(name);
    if (!whole) return null;
    const fine = this.detail?.axis === axis ? this.detail.columns[name] : null;
    const { low, high } = this.detail ?? {};
    const all = [];
    const take = (column, wanted) => {
      for (let i = 0; i < column.mean.length; i++) {
        if (column[axis][i] !== null && wanted(column[axis][i]))
          all.push([column[axis][i], column.mean[i], column.low[i], column.high[i]]);
      }
    };
    take(whole, (x) => !fine || x < low || x > high);
    if (fine) take(fine, (x) => x >= low && x <= high);
    all.sort((a, b) => a[0] - b[0]);
    const column = (k) => all.map((point) => point[k]);
    return { x: column(0), mean: column(1), low: column(2), high: column(3) };
  }

  /** Mean of a column's newest points, for one row alone may be short; undefined: none. */
  recent(name) {
    const newest = this.columns.get(name)?.mean.slice(-RECENT);
    return newest?.length ? newest.reduce((a, b) => a + b) / newest.length : undefined;
  }
}

/** Runs that are alike but for their seeds are one group. */
export function groups_of(runs, together) {
  const groups = new Map();
  for (const run of runs) {
    const { seed, ...settings } = run.settings ?? {};
    const alike = together && seed !== undefined;
    const key = alike ? JSON.stringify(settings) : run.name;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(run);
  }
  return [...groups.values()].map((members, place) => ({
    runs: members,
    label: members.length > 1 ? `${shared_name(members)} (${members.length} ${of_seeds(members) ? "seeds" : "runs"})` : members[0].name,
    colour: `curve-${place % 8}`,
    dashed: place % 16 >= 8,
  }));
}

// "a/seed-1" and "a/seed-2": "a/seed-*"
function shared_name(runs) {
  const first = runs[0].name;
  let length = first.length;
  for (const { name } of runs) while (!name.startsWith(first.slice(0, length))) length--;
  const shared = first.slice(0, length).replace(/[\d]*$/, "");
  return shared ? shared + "*" : `${first} and others`;
}

// one seed may have been run twice
function of_seeds(runs) {
  return new Set(runs.map((run) => run.settings.seed)).size === runs.length;
}

/** Least and greatest place that any of the runs has on the axis; null: none has a point. */
export function extent(runs, axis) {
  const ends = runs.flatMap((run) => [...run.columns.values()].flatMap((column) => [column[axis].at(0), column[axis].at(-1)]));
  const known = ends.filter(Number.isFinite);
  return known.length ? [Math.min(...known), Math.max(...known)] : null;
}

/** Mean and range of several runs where at least one has points: each in straight lines between its own. */
function joined(curves) {
  const xs = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  const every = Math.ceil(xs.length / POINTS);
  const all = { x: xs.filter((_, i) => i % every === 0 || i === xs.length - 1), mean: [], low: [], high: [] };
  const places = curves.map(() => 0);
  for (const x of all.x) {
    const values = [];
    curves.forEach((curve, k) => {
      const last = curve.x.length - 1;
      if (last < 0 || x < curve.x[0] || x > curve.x[last]) return;
      while (places[k] < last && curve.x[places[k] + 1] <= x) places[k]++;
      const i = places[k];
      const share = i === last ? 0 : (x - curve.x[i]) / (curve.x[i + 1] - curve.x[i]);
      values.push(i === last ? curve.mean[i] : curve.mean[i] * (1 - share) + curve.mean[i + 1] * share);
    });
    all.mean.push(values.length ? values.reduce((a, b) => a + b) / values.length : null);
    all.low.push(values.length ? Math.min(...values) : null);
    all.high.push(values.length ? Math.max(...values) : null);
  }
  return all;
}

// exponential mean, without the pull of its beginning
function smoothed(values, weight) {
  let sum = 0;
  let weights = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value;
    weights = weights * weight + 1;
    return sum / weights;
  });
}

/** What one panel draws: [{label, colour, dashed, x, mean, low, high}] of the groups that have the column. */
export function curves_of(groups, column, { axis, smoothing }) {
  const curves = [];
  for (const group of groups) {
    const members = group.runs.map((run) => run.points(column, axis)).filter((points) => points?.x.length);
    if (!members.length) continue;
    const curve = members.length > 1 ? joined(members) : members[0];
    const mean = smoothing > 0 ? smoothed(curve.mean, smoothing) : curve.mean;
    curves.push({ ...curve, mean, label: group.label, colour: group.colour, dashed: group.dashed });
  }
  return curves;
}
