"""What a loop of one's own takes of the machine, as a run tells it in its metrics."""

from __future__ import annotations

import math
import threading
import warnings
from typing import SupportsFloat, SupportsIndex

import torch

from maglev import _engine
from maglev.given import number, whole


class Monitor:
    """What this process takes of the machine while a loop of one's own runs:

        monitor = maglev.Monitor(every=10)
        for number in range(1000):
            ...
            if figures := monitor.sample(step=number * 1024):
                print(figures["memory/process_mib"])
        print(monitor.summary())

    every: seconds between two samples at least; 0: each call is one.
    planned_mib: MiB that the process may come to hold beside what it has at the first sample, such as a replay's whose
    pages fill. Memory that grows beyond is warned of.
    device: auto, cpu, cuda or cuda:<index>; a GPU's figures are told besides.

    warnings: what was warned of.
    """

    def __init__(
        self, every: SupportsFloat = 10.0, *, planned_mib: SupportsFloat = 0.0, device: str | torch.device = "auto"
    ):
        seconds, planned = number(every, "[monitor] every"), number(planned_mib, "[monitor] planned_mib")
        for name, value, unit in (("every", seconds, "seconds"), ("planned_mib", planned, "MiB")):
            if not 0 <= value <= 1e9:
                raise _engine.Error(f"[monitor] {name} must be in 0..1e9 {unit}, got {value:g}")
        self.warnings: list[str] = []
        self._lock = threading.Lock()
        self._engine = _engine.Monitor(seconds, int(planned * 2**20), str(device))
        self._seconds, self._samples = 0.0, 0
        # by name: the seconds it was told of, its sum over them, the most, the last
        self._told: dict[str, tuple[float, float, float, float]] = {}

    def sample(self, step: SupportsIndex | None = None) -> dict[str, float]:
        """Figures by name, of the time since the sample before; what is not known is not among them. Empty until the
        next sample is due.

        step: environment steps so far, for energy by steps.

        `seconds` is the time since the monitor was made. docs/monitoring.md says what the others are. Memory that grows
        is a UserWarning, once. The first sample is what growth is told from, so it belongs behind what warms up.
        """
        steps = -1 if step is None else whole(step, "[monitor] step")
        with self._lock:
            seconds, figures, warning = self._engine.sample(steps)
            if figures:
                self._take(seconds, figures)
            if warning:
                self.warnings.append(warning)
        if warning:
            warnings.warn(warning, stacklevel=2)
        return {"seconds": seconds, **dict(figures)} if figures else {}

    def _take(self, seconds: float, figures: list[tuple[str, float]]) -> None:
        passed = seconds - self._seconds
        for name, value in figures:
            told_of, total, most, _ = self._told.get(name, (0.0, 0.0, -math.inf, 0.0))
            self._told[name] = told_of + passed, total + passed * value, max(most, value), value
        self._seconds, self._samples = seconds, self._samples + 1

    def summary(self) -> str:
        """Each figure's mean by time, most and last over all samples, and what was warned of, as lines for people."""
        with self._lock:
            told, said = dict(self._told), list(self.warnings)
            head = f"{self._samples} sample{'s' * (self._samples != 1)} in {self._seconds:.1f} s"
        width = max(map(len, (head, *told)))
        lines = [f"{head:<{width}}{'mean':>14}{'most':>14}{'last':>14}"]
        for name, (seconds, total, most, last) in told.items():
            lines.append(f"{name:<{width}}{total / seconds:>14,.2f}{most:>14,.2f}{last:>14,.2f}")
        return "\n".join(lines + said)
