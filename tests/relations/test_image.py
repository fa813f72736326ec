"""Images of rows that come and go: the rows there are, in order, in few segments."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.relations.image import RATIO, Image


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_rows_come_and_go(seed: int) -> None:
    r = Random(seed)
    image, rows, next_row = Image(), dict[int, tuple[float, int]](), 0
    for _ in range(r.randint(1, 30)):
        size = r.choice([0, 1, 5, 60])
        new = {
            next_row + i: (r.choice([-0.5, 0.0, 1.5, r.random()]), r.randint(0, 3))
            for i in range(size)
        }
        next_row += size
        rows |= new
        values = list(new.values())
        image = image.add(
            np.array([b for b, _ in values]),
            np.array([c for _, c in values], np.int64),
            np.array(list(new), np.int64),
        )
        if r.random() < 0.3 and rows:
            gone = r.sample(list(rows), r.randint(1, len(rows)))
            asked = [*gone, next_row]  # the last is not there
            at = [*(rows[row] for row in gone), (0.0, 0)]
            b, c = np.array([b for b, _ in at]), np.array([c for _, c in at], np.int64)
            image = image.remove(b, c, np.array(asked))
            rows = {row: own for row, own in rows.items() if row not in gone}
        check(image, rows)


def check(image: Image, rows: dict[int, tuple[float, int]]) -> None:
    found: dict[int, tuple[float, int]] = {}
    for segment in image.segments:
        keys = list(zip(segment.b.tolist(), segment.c.tolist(), segment.row.tolist(), strict=True))
        assert keys == sorted(keys) and keys
        found |= {row: (b, c) for b, c, row in keys}
    sizes = [len(s) for s in image.segments]
    assert found == rows and sum(sizes) == len(rows) == len(image)
    assert all(a >= RATIO * b for a, b in pairwise(sizes))
