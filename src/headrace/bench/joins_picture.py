"""Draws `docs/stabbing.svg`: the stabbing partition of some band joins, and what one event affects.

python -m headrace.bench.joins_picture docs/stabbing.svg
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.bench.drawing import Drawing
from headrace.bench.plot import COLOURS
from headrace.families.joins.bands.index import BandIndex
from headrace.families.joins.conditions import conditions_of
from headrace.families.joins.stabbing.partition import canonical
from headrace.relations.arrays import Ints
from headrace.sql.bind import bind
from headrace.sql.schema import parse_schema
from headrace.values import Relation

FIELDS = parse_schema("b BIGINT, ts TIMESTAMP")
RELATIONS = {name: Relation(name, f"parquet:{name}", FIELDS, time="ts") for name in "rs"}
SEED, QUERIES, DOMAIN = 6, 22, 100
EVENT, ROWS = 20, (10, 26, 64, 91)
WIDTH, LEFT, ROW_PX, TOP = 880, 40, 13, 54


@dataclass(frozen=True, slots=True)
class Ranges:
    lo: Ints
    hi: Ints


def queries() -> list[str]:
    """Real ones: they are bound, and their bands read."""
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(QUERIES):
        middle, half = rng.choice([16, 48, 80]) + rng.normal(0, 6), abs(rng.normal(9, 3)) + 2
        lo, hi = round(middle - half), round(middle + half)
        found.append(f"SELECT r.b AS x, s.b AS y FROM r JOIN s ON s.b - r.b BETWEEN {lo} AND {hi}")
    return found


def ranges_of(texts: list[str]) -> Ranges:
    bands = [conditions_of(bind(sql, RELATIONS, name="q").where).differences[0][1] for sql in texts]
    ends = np.array([band.intervals[0] for band in bands], np.int64)
    return Ranges(ends[:, 0].copy(), ends[:, 1].copy())


def picture() -> str:
    own = ranges_of(queries())
    found = canonical(own.lo, own.hi)
    rows = np.array(ROWS, np.int64)
    index = BandIndex.build(np.arange(QUERIES), own.lo, own.hi, found.group)
    events = np.array([EVENT], np.int64)
    affected = set(index.runs(rows, events, index.probe(rows, events)).query.tolist())
    order = np.lexsort((own.lo, found.group))
    bottom = TOP + ROW_PX * QUERIES + 12
    drawing = Drawing(WIDTH)
    drawing.text(
        LEFT,
        20,
        "A line is the range that one query asks of s.b - r.b, a colour is a group of them.",
    )
    drawing.text(
        LEFT,
        38,
        "Dashed: a point that all of a group share. Dots: rows of s, less the b of one row of r.",
    )
    for g, point in enumerate(index.groups.point.tolist()):
        x, colour = _x(point), COLOURS[g % len(COLOURS)]
        drawing.line((x, TOP - 8), (x, bottom), colour, 1, "4 3")
    for place, q in enumerate(order.tolist()):
        y, colour = TOP + ROW_PX * place, COLOURS[int(found.group[q]) % len(COLOURS)]
        drawing.line((_x(own.lo[q]), y), (_x(own.hi[q]), y), colour, 5 if q in affected else 1.5)
    drawing.line((LEFT, bottom), (WIDTH - LEFT, bottom), "#999999")
    for difference in (rows - EVENT).tolist():
        drawing.dot(_x(difference), bottom)
    told = f"{QUERIES} queries, {found.lo.size} groups. Thick: the {len(affected)} that the row affects."
    drawing.text(LEFT, bottom + 22, told)
    return drawing.svg(bottom + 34)


def _x(value: float) -> float:
    return LEFT + (value + 12) / (DOMAIN + 12) * (WIDTH - 2 * LEFT)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
