"""Benchmark `sketches`: distinct counts and percentiles in trees, in one tree and in a dyadic
table, and on Spark.

First without Spark: the same panes of sketches, 20 groups of 20 values, drive the same windows
through each operator, for two sets of windows.  Then 200 queries over a market in one engine, and
one of them on Structured Streaming.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np

from headrace.bench import market
from headrace.bench.report import Figure, Report, machine
from headrace.bench.windows import ROWS, WARM_ROUNDS, Bench
from headrace.config import Config
from headrace.families.windows.sketches.bias import NO_BIAS
from headrace.families.windows.sketches.bundles import Bundle, Points, Registers
from headrace.families.windows.sketches.choice import FOREST, TABLE, TREE, costs_of
from headrace.families.windows.sketches.kinds import points_max
from headrace.families.windows.sketches.trees import Keeper, Table, Tree, grain_of
from headrace.families.windows.weave.edges import Shape
from headrace.runtime.session import make_session
from headrace.values import US_PER_S

Tell = Callable[[str], None]
GROUPS, VALUES, SEED = 20, 20, 7
WARM_PANES = 130
ACCURACY = 100
QUERIES = 200
KINDS = ("hll", "points", "values")
OPERATORS = (FOREST, TREE, TABLE)
WINDOWS = {
    "families": [Shape(k * s * US_PER_S, s * US_PER_S) for s in (60, 61, 67) for k in range(1, 13)],
    "mixed": [
        Shape(r * US_PER_S, s * US_PER_S)
        for r, s in product(market.RANGES_S, market.SLIDES_S)
        if s <= r <= 8 * s
    ],
}
ASKED = {
    "approx_count_distinct(qty)": "sizes",
    "percentile_approx(price, 0.9, 100)": "points",
    "approx_count_distinct(price)": "prices",
}


def run(quick: bool, tell: Tell) -> Report:
    panes, files = (300, 6) if quick else (1_200, 12)
    figures = [f for name in WINDOWS for kind in KINDS for f in operators(name, kind, panes, tell)]
    figures += on_spark(files, tell)
    about = machine(files, SEED) | {"panes": str(panes), "groups": str(GROUPS)}
    title = f"{panes} panes of {GROUPS} groups with {VALUES} values; {QUERIES} queries, {files} files of {ROWS:,} rows"
    return Report(title, tuple(figures), None, about)


def operators(name: str, kind: str, panes: int, tell: Tell) -> list[Figure]:
    """Panes a second of each operator, and which one the costs choose."""
    shapes = WINDOWS[name]
    costs = costs_of(tuple(shapes), kind)
    made = [bundle(kind, np.random.default_rng([SEED, i])) for i in range(panes)]
    woven = [[shapes[n] for n in tree] for tree in costs.trees]
    grain = grain_of(shapes)
    speeds: dict[str, float] = {}
    for operator in OPERATORS:
        keepers: list[tuple[Keeper[Bundle], Sequence[Shape]]]
        if operator == TABLE:
            keepers = [(Table(shapes, 0), shapes)]
        else:
            keepers = [(Tree(own, 0), own) for own in (woven if operator == FOREST else [shapes])]
        drive([(Tree(own, 0), own) for _, own in keepers], made[:WARM_PANES], grain)  # compiles
        began = perf_counter()
        drive(keepers, made, grain)
        speeds[operator] = panes / (perf_counter() - began)
        tell(f"{kind}, {len(shapes)} {name} windows, {operator}: {speeds[operator]:,.0f} panes/s")
    note = f"{len(shapes)} windows, {len(costs.trees)} trees; chosen: {costs.best}"
    return [
        Figure(f"{name}_{kind}_{o.replace(' ', '_')}", speeds[o], "panes/s", note=note)
        for o in OPERATORS
    ]


def bundle(kind: str, rng: np.random.Generator) -> Bundle:
    """The sketches of a pane."""
    groups = np.arange(GROUPS, dtype=np.int32)
    if kind == "hll":
        seen = rng.random((GROUPS, 512)) < VALUES / 512
        return Registers(groups, (rng.geometric(0.5, (GROUPS, 512)) * seen).astype(np.uint8))
    values = np.sort(rng.integers(0, 1 << 40, (GROUPS, VALUES)), axis=1).ravel()
    most = points_max(ACCURACY) if kind == "points" else 0
    return Points(
        groups, np.arange(GROUPS + 1) * VALUES, values, np.ones(values.size, np.int64), thin_to=most
    )


def drive(
    keepers: Sequence[tuple[Keeper[Bundle], Sequence[Shape]]], panes: Sequence[Bundle], grain: int
) -> None:
    """Every pane is taken, every window that ends is merged and read."""
    for i, pane in enumerate(panes):
        now = (i + 1) * grain
        for keeper, shapes in keepers:
            keeper.take(np.array([now - grain]), [pane])
            for shape in shapes:
                start = now - shape.range_us
                if start >= 0 and (start - shape.offset_us) % shape.slide_us == 0:
                    parts = keeper.parts(start, now)
                    merged = parts[0].merge(parts[1:])
                    if isinstance(merged, Registers):
                        merged.distinct(merged.groups, NO_BIAS)
                    else:
                        merged.sizes(merged.groups)
            keeper.forget(now - max(s.range_us for s in shapes) + 1)


def on_spark(files: int, tell: Tell) -> list[Figure]:
    """All queries in one engine against one of them on Structured Streaming, over the same
    files."""
    texts = queries(QUERIES)
    spark = make_session(Config.from_environment())
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-sketches-") as folder:
            bench = Bench(spark, Path(folder), tell)
            bench.prepare(files)
            bench.drain({"approximate": texts["q1"]}, {QUERIES: texts}, WARM_ROUNDS + 1)
            peers, all_ours = bench.drain({"approximate": texts["q1"]}, {QUERIES: texts}, files)
            peer, ours = peers["approximate"], all_ours[QUERIES]
    finally:
        spark.stop()
    return [
        Figure("headrace_rows_s", ours.rows_per_s, "rows/s", note=f"{QUERIES} queries"),
        Figure("spark_rows_s", peer.rows_per_s, "rows/s", note="one query"),
        Figure("roll_s", ours.stage_s("roll"), "s", note="median round"),
        Figure("answer_s", ours.stage_s("answer"), "s", note="median round"),
        Figure("spark_s", ours.stage_s("spark"), "s", note="median round"),
    ]


def queries(count: int) -> dict[str, str]:
    """Different windows, three aggregates, with and without a key."""
    spans = [
        (r, s)
        for r, s in product(market.RANGES_S, market.SLIDES_S)
        if s <= r <= 60 * s and r <= 600
    ]
    found = {}
    for i in range(count):
        (what, name), (size, slide) = (
            list(ASKED.items())[i % len(ASKED)],
            spans[i // len(ASKED) % len(spans)],
        )
        key = "symbol, " if i % 2 else ""
        found[f"q{i}"] = (
            f"SELECT {key}{what} AS {name} FROM trades "
            f"GROUP BY {key}window(ts, '{size} seconds', '{slide} seconds')"
        )
    return found
