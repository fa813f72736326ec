"""Draws `docs/plain.svg`: the three ways of running a query that nobody shares.

python -m headrace.bench.plain_picture docs/plain.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.bench.drawing import Drawing
from headrace.bench.plot import COLOURS

WIDTH, ROW_PX, TOP, HEIGHT = 880, 96, 78, 62
ROUND_X, KEPT_X, SPARK_X, LOG_X = 20, 150, 380, 640
LANES = (
    (
        "SELECT upper(symbol) FROM trades",
        (),
        ("Spark runs the query", "over the rows of the round"),
        ("its rows,", "never taken back"),
    ),
    (
        "SELECT max(symbol) FROM trades GROUP BY window(ts, '1 hour')",
        ("rows that an open", "window still needs"),
        ("when a window closes,", "Spark runs the query"),
        ("the closed windows,", "never taken back"),
    ),
    (
        "SELECT venue, count(*) FROM trades GROUP BY venue",
        ("all rows so far,", "of a table the latest"),
        ("Spark runs the query,", "and compares the answers"),
        ("what came and what went;", "the whole answer beside it"),
    ),
)


def picture() -> str:
    drawing = Drawing(WIDTH)
    heads = zip(
        (ROUND_X, KEPT_X, SPARK_X, LOG_X),
        ("a round", "rows that are kept", "a Spark job", "what is committed"),
        strict=True,
    )
    for x, text in heads:
        drawing.text(x, 28, text, bold=True)
    last = TOP + ROW_PX * (len(LANES) - 1) + HEIGHT
    drawing.box((ROUND_X, TOP), (90, last - TOP), ["rows,", "read once", "for all"], COLOURS[2])
    for lane, (query, kept, spark, log) in enumerate(LANES):
        y = TOP + ROW_PX * lane
        middle = y + HEIGHT / 2
        drawing.text(KEPT_X, y - 8, query)
        drawing.arrow((ROUND_X + 90, middle), (KEPT_X if kept else SPARK_X, middle))
        if kept:
            drawing.box((KEPT_X, y), (190, HEIGHT), kept, COLOURS[1])
            drawing.arrow((KEPT_X + 190, middle), (SPARK_X, middle))
        drawing.box((SPARK_X, y), (220, HEIGHT), spark, COLOURS[0])
        drawing.arrow((SPARK_X + 220, middle), (LOG_X, middle))
        drawing.box((LOG_X, y), (226, HEIGHT), log, COLOURS[4])
    drawing.text(
        KEPT_X,
        last + 26,
        "All of it is committed with the round, together with the shared queries.",
    )
    return drawing.svg(last + 42)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
