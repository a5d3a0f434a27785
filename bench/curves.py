"""Learning curves of several runs as one SVG: a figure of metrics.jsonl over steps, a line a run.

python3 bench/curves.py docs/hockey_curve.svg --title "..." --figure won runs/a runs/b
Figures are names of metrics.jsonl, or `won`: the share of decided games won, over the last fifth of the run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 300, 56, 40, 34
COLOURS = ["#0e48fe", "#a80000", "#00525c", "#7303ac", "#969207", "#1298f9", "#e54e9f", "#22262f"]  # of base/picture/chart.cpp
# what a point of `won` looks back on, and how many points a line has
WINDOW, POINTS = 0.2, 160


def rows_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def points_of(run: Path, figure: str) -> list[tuple[float, float]]:
    """(steps, value), without rows that have none."""
    rows = [row for row in rows_of(run) if figure == "won" or row.get(figure) is not None]
    every = max(1, len(rows) // POINTS)
    if figure != "won":
        return [(row["step"], row[figure]) for row in rows[::every]]
    # games won and lost up to each row, from how often a thousand steps saw them
    won, lost, before = [0.0], [0.0], 0
    for row in rows:
        thousands, before = (row["step"] - before) / 1000, row["step"]
        won.append(won[-1] + thousands * (row.get("events/goals_per_1k") or 0))
        lost.append(lost[-1] + thousands * (row.get("events/conceded_per_1k") or 0))
    points, back = [], int(WINDOW * len(rows))
    for i in range(back, len(rows) + 1, every):
        goals, conceded = (of[i] - of[i - back] for of in (won, lost))
        if goals + conceded > 0:
            points.append((rows[i - 1]["step"], 100 * goals / (goals + conceded)))
    return points


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    step = (high - low) / count
    magnitude = 10 ** len(str(int(step))) / 10 if step >= 1 else 1
    step = max(magnitude, round(step / magnitude) * magnitude)
    first = -(-low // step) * step
    return [first + i * step for i in range(int((high - first) / step) + 1)]


def svg(runs: list[Path], figure: str, title: str, unit: str, bar: float | None) -> str:
    lines = [points_of(run, figure) for run in runs]
    every = [point for line in lines for point in line]
    x_high = max(x for x, _ in every)
    y_low, y_high = min(y for _, y in every), max(y for _, y in every)
    if bar is not None:
        y_low, y_high = min(y_low, bar), max(y_high, bar)
    if figure == "won":
        y_low, y_high = 0, 100

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (WIDTH - LEFT - 16) * x / x_high,
            TOP + (HEIGHT - TOP - BOTTOM) * (y_high - y) / (y_high - y_low),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" fill="#222">{title}</text>',
    ]
    for y in ticks(y_low, y_high):
        _, py = at(0, y)
        parts.append(
            f'<line x1="{LEFT}" y1="{py:.1f}" x2="{WIDTH - 16}" y2="{py:.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end" fill="#555">{y:g}{unit}</text>'
        )
    for x in ticks(0, x_high):
        px, _ = at(x, y_low)
        parts.append(
            f'<text x="{px:.1f}" y="{HEIGHT - 22}" text-anchor="middle" fill="#555">'
            f"{x / 1000:g}k</text>"
        )
    parts.append(
        f'<text x="{WIDTH - 16}" y="{HEIGHT - 6}" text-anchor="end" fill="#555">steps</text>'
    )
    if bar is not None:
        _, py = at(0, bar)
        parts.append(
            f'<line x1="{LEFT}" y1="{py:.1f}" x2="{WIDTH - 16}" y2="{py:.1f}" stroke="#888" '
            'stroke-dasharray="5 4"/>'
        )
    for i, (run, line) in enumerate(zip(runs, lines)):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in line)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
            f'<text x="{WIDTH - 90}" y="{HEIGHT - BOTTOM - 12 - 15 * (len(runs) - 1 - i)}" '
            f'fill="{colour}">{run.name}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "runs", type=Path, nargs="+", help="run folders; a line is called as its folder"
    )
    parser.add_argument("--figure", default="return_mean")
    parser.add_argument("--title", default="")
    parser.add_argument("--unit", default="")
    parser.add_argument("--bar", type=float, help="a dashed line: what is to be reached")
    a = parser.parse_args()
    a.out.write_text(svg(a.runs, a.figure, a.title, a.unit, a.bar))


if __name__ == "__main__":
    main()
