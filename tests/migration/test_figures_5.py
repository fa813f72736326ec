"""Statistics of homes of earlier formats are read as those of this one."""

from __future__ import annotations

import json
from typing import Any

from headrace.families.joins.figures import ShapeFigures, newest_figures
from headrace.families.plain.figures import PlainFigures
from headrace.families.plain.figures import figures_of as plain_figures_of
from headrace.families.windows.figures import WindowsFigures, figures_of
from headrace.migration.figures_5 import figures_of_format_5
from headrace.records import decode
from headrace.runtime.statistics import RoundStats, check_stats

SHAPE: dict[str, Any] = {
    "ranges": 2,
    "methods": {"groups": 7},
    "alone_s": {"groups": 1e-6},
    "took_s": 2e-6,
}
OLD: dict[str, Any] = {
    "stream": "trades",
    "round_id": 3,
    "rows": 100,
    "late": 1,
    "no_time": 2,
    "bad": 3,
    "queries": 4,
    "answers": 5,
    "watermark_us": 6_000_000,
    "seconds": {"spark": 0.5, "total": 1.0},
    "unshared_s": 1.5,
    "selectivity": {"`n` > 1": 0.25},
    "groupings": 2,
    "ring_bytes": 1_000,
    "log_bytes": 2_000,
    "log_files": 3,
    "load": {
        "before_us": 4_000_000,
        "cells": 50,
        "pane_us": 1_000_000,
        "predicates": 1,
        "keys": ["`k`"],
        "groups": {"`k`": 3},
        "priced": {"spark": 0.4},
        "plain_s": {"7": 0.1},
        "joints": {"trades by `n` (side 0)": SHAPE},
        "kept_rows": 9,
        "standing": {"ranges": 2.0},
    },
    "process_bytes": 10_000,
}


def moved(old: dict[str, Any]) -> RoundStats:
    stats = json.loads(json.dumps(figures_of_format_5(old)))
    check_stats(stats)
    return decode(RoundStats, stats)


def test_every_figure_finds_its_place() -> None:
    found = moved(OLD)
    stats = {"figures": found.figures}
    assert (found.rows, found.answers, found.process_bytes) == (100, 5, 10_000)
    assert (found.watermark_before_us, found.watermark_us) == (4_000_000, 6_000_000)
    assert found.priced == {"spark": 0.4} and found.unshared_s == 1.5
    assert figures_of(stats) == WindowsFigures(
        50,
        1_000_000,
        1,
        ("`k`",),
        {"`k`": 3},
        2,
        False,
        (),
        {"`n` > 1": 0.25},
        1_000,
        2_000,
        3,
        1.5,
    )
    assert plain_figures_of(stats) == PlainFigures({"7": 0.1})
    joins = newest_figures([stats])
    assert joins.shapes == {"trades by `n` (side 0)": ShapeFigures(**SHAPE)}
    assert (joins.kept_rows, joins.standing) == (9, {"ranges": 2.0})


def test_shapes_may_have_their_new_name_already() -> None:
    load = {k: v for k, v in OLD["load"].items() if k != "joints"}
    again = moved({**OLD, "load": {**load, "shapes": OLD["load"]["joints"]}})
    assert again == moved(OLD)


def test_what_was_not_told_is_left_to_defaults() -> None:
    optional = ("load", "selectivity", "groupings", "ring_bytes", "log_bytes", "log_files")
    found = moved({k: v for k, v in OLD.items() if k not in (*optional, "process_bytes")})
    assert found.figures == {"windows": {"unshared_s": 1.5}} and found.priced == {}
    assert found.watermark_before_us is None
