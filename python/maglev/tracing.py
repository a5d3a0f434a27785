"""Where the time of a loop of one's own goes: spans, and traces of them beside the engine's."""

from __future__ import annotations

import operator
import sys
from contextlib import ContextDecorator
from pathlib import Path

from maglev import _engine


class span(ContextDecorator):
    """What the calling thread does meanwhile, by a name, in the trace that records, if one does:

        with maglev.span("update", step=number):
            ...

        @maglev.span("loss")
        def loss(batch): ...

    name: 1 to 120 bytes; each is kept, 4,096 of them, so what counts belongs in step: a number >= 0. Spans of a
    thread end in the opposite order.
    """

    def __init__(self, name: str, *, step: int | None = None):
        if not isinstance(name, str):
            raise _engine.Error(f"[span] a name is text, got {name!r}")
        try:
            number = -1 if step is None else operator.index(step)
        except TypeError:
            number = -2
        if isinstance(step, bool) or not -1 <= number < 2**63 or (step is not None and number < 0):
            raise _engine.Error(f"[span] a step is a whole number from 0 on, got {step!r}")
        self._made = name, number
        self._span = _engine.Span(*self._made)

    def _recreate_cm(self) -> span:
        # a function may call itself
        again = span.__new__(span)
        again._made = self._made
        again._span = _engine.Span(*self._made)
        return again

    def __enter__(self) -> span:
        self._span.enter()
        return self

    def __exit__(self, *raised: object) -> None:
        self._span.exit()


class trace:
    """Records what all threads of this process do meanwhile, the engine's and spans of one's own:

        with maglev.trace("loop.json.gz"):
            for number in range(100):
                ...

    file: for Perfetto, chrome://tracing and `./maglev trace analyze FILE`, compressed where it ends in .gz. It is
    written also where something is raised within.
    mode: "lite", or "full": torch's operations besides, and a GPU's kernels.
    overwrite: a file that is there is replaced.

    notes: lines on what was written, behind it.
    """

    def __init__(self, file: str | Path, *, mode: str = "lite", overwrite: bool = False):
        self.notes: list[str] = []
        self._trace = _engine.Trace(str(file), mode, overwrite)

    def __enter__(self) -> trace:
        self._trace.begin()
        return self

    def __exit__(self, *raised: object) -> None:
        self.notes = self._trace.end(sys.argv[0] or "python")
