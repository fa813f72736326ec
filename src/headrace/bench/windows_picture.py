"""Draws `docs/panes.svg`: windows of three queries over the same panes, and how the ring answers
those that end now out of two pieces each.

python -m headrace.bench.windows_picture docs/panes.svg
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.bench.drawing import GREY, INK, Drawing, text_px
from headrace.bench.plot import COLOURS
from headrace.families.windows.rings.answer_kernels import highest_split
from headrace.sql.bind import bind
from headrace.sql.duration import span
from headrace.sql.schema import parse_schema
from headrace.values import Relation, Window

RELATION = Relation("trades", "parquet:t", parse_schema("ts TIMESTAMP"), time="ts")
WINDOWS = ("'1 hour', '10 minutes'", "'40 minutes', '20 minutes'", "'20 minutes'")
FIRST, NEWEST, OPEN = 1, 7, 8
"""Panes: the first that is shown, the one that has just closed, and the next."""
ROWS, SEED = 46, 5
WIDTH, LEFT, PANE_PX = 880, 250, 74
TAIL, HEAD = COLOURS[2], COLOURS[0]
MARK = "watermark: all before it has come "


def windows() -> list[Window]:
    """Of real queries, as the gate reads them."""
    texts = (f"SELECT count(*) FROM trades GROUP BY window(ts, {own})" for own in WINDOWS)
    found = (bind(sql, {"trades": RELATION}, name="q").window for sql in texts)
    return [window for window in found if window is not None]


def counts(rows: NDArray[np.float64]) -> list[int]:
    """Rows by pane."""
    found: list[int] = np.bincount(rows.astype(np.int64), minlength=OPEN + 1).tolist()
    return found


def picture() -> str:
    own = windows()
    grain_us = math.gcd(*(window.grain_us for window in own))
    rows = np.sort(np.random.default_rng(SEED).uniform(FIRST, OPEN + 1, ROWS))
    by_pane = counts(rows)
    drawing = Drawing(WIDTH)
    drawing.text(
        20, 24, "Rows are counted once, by pane; windows are put together of panes", bold=True
    )
    drawing.text(20, 60, "rows of the stream, by time")
    for at in rows.tolist():
        drawing.dot(_x(at), 56, 3, GREY)
    drawing.text(20, 99, f"panes of {span(grain_us)}, in Spark")
    for pane in range(FIRST, OPEN + 1):
        is_closed = pane <= NEWEST
        lines = [str(by_pane[pane])] if is_closed else ["open"]
        drawing.box((_x(pane) + 2, 80), (PANE_PX - 4, 30), lines, INK if is_closed else GREY)
    y = 150.0
    drawing.text(20, y, "windows that end now:", bold=True)
    for window, text in zip(own, WINDOWS, strict=True):
        y += 38
        drawing.text(20, y, text)
        first = NEWEST + 1 - window.range_us // grain_us
        _pieces(drawing, y - 19, by_pane, first)
    edge = _x(NEWEST + 1)
    drawing.line((edge, 40), (edge, y + 20), COLOURS[1], 1.5, "5 4")
    drawing.text(edge - text_px(MARK), y + 38, MARK, colour=COLOURS[1])
    drawing.text(20, y + 66, "blue: panes up to a fixed edge, joined when the ring passed it;")
    drawing.text(
        20, y + 84, "green: panes from that edge to the newest, joined as each pane closed."
    )
    drawing.text(
        20,
        y + 102,
        "So every answer is one join, whether the window has two panes or two thousand.",
    )
    return drawing.svg(y + 118)


def _pieces(drawing: Drawing, y: float, by_pane: list[int], first: int) -> None:
    """A window as the ring has it: a tail, which ends at an edge, and a head, which begins there."""
    levels = NEWEST.bit_length()
    level = highest_split(first, NEWEST, levels)
    edge = (NEWEST >> level) << level
    parts = ((first, edge, TAIL), (edge, NEWEST + 1, HEAD))
    sums = [sum(by_pane[start:stop]) for start, stop, _ in parts]
    for (start, stop, colour), total in zip(parts, sums, strict=True):
        size = (PANE_PX * (stop - start) - 4, 28)
        drawing.box((_x(start) + 2, y), size, [str(total)], colour)
    drawing.text(_x(NEWEST + 1) + 8, y + 19, f"{sums[0]} + {sums[1]} = {sum(sums)}")


def _x(pane: float) -> float:
    return LEFT + (pane - FIRST) * PANE_PX


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
