"""Draws `docs/stabbing.svg`: the stabbing partition of some band joins, and what one event affects.

python -m headrace.bench.joins_picture docs/stabbing.svg
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
    parts = [
        _text(LEFT, 20, "ranges of s.b - r.b, by stabbing group; thick: affected by one row of r"),
        _text(
            LEFT,
            36,
            "dashed: a point that all of a group share;  dots: rows of s, less the b of that row of r",
        ),
    ]
    for g, point in enumerate(index.groups.point.tolist()):
        parts.append(
            _line(_x(point), TOP - 8, _x(point), bottom, COLOURS[g % len(COLOURS)], 1, "4 3")
        )
    for place, q in enumerate(order.tolist()):
        y, colour = TOP + ROW_PX * place, COLOURS[int(found.group[q]) % len(COLOURS)]
        parts.append(_line(_x(own.lo[q]), y, _x(own.hi[q]), y, colour, 5 if q in affected else 1.5))
    parts.append(_line(LEFT, bottom, WIDTH - LEFT, bottom, "#999999", 1))
    parts += [
        f'<circle cx="{_x(d):.1f}" cy="{bottom}" r="4" fill="#333333"/>'
        for d in (rows - EVENT).tolist()
    ]
    parts.append(
        _text(
            LEFT,
            bottom + 20,
            f"{QUERIES} queries, {found.lo.size} groups, {len(affected)} affected",
        )
    )
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 32}">\n{body}\n</svg>\n'


def _x(value: float) -> float:
    return LEFT + (value + 12) / (DOMAIN + 12) * (WIDTH - 2 * LEFT)


def _line(
    x0: float, y0: float, x1: float, y1: float, colour: str, width: float, dashes: str = ""
) -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"{dashed}/>'


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" font-family="sans-serif" font-size="13" fill="#333333">{text}</text>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
