"""Pairs of an event and the rows it joins, by box, against all of them."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from headrace.families.joins.plan import BAND, SELECT, Box
from headrace.families.joins.reading.pairs import expanded, runs_of
from tests.families.joins.test_probes import BANDS, draw_bands, draw_numbers, draw_selects, image_of


def disjoint(boxes: list[Box]) -> list[Box]:
    """Of one query no two boxes have a pair in common."""
    found: list[Box] = []
    for box in boxes:
        if all(
            box[1] < own[0] or own[1] < box[0] or box[3] < own[2] or own[3] < box[2]
            for own in found
        ):
            found.append(box)
    return found


@pytest.mark.parametrize("name", BANDS)
def test_bands(name: str, seed: int) -> None:
    chance = Random(seed)
    for case in range(40):
        b, rows = (np.sort(draw_numbers(chance, name, chance.randrange(0, 30))) for _ in range(2))
        boxes, side = disjoint(draw_bands(chance, name, chance.choice([1, 6]))), case % 2
        image = image_of(rows, np.zeros(rows.size, np.int64), chance.randrange(1, 4))
        event, row = expanded(runs_of(BAND, boxes, side, image, b, b), np.arange(b.size))
        with np.errstate(over="ignore"):
            apart = rows[None, :] - b[:, None] if side == 0 else b[:, None] - rows[None, :]
        expected = [
            pair
            for lo, hi, *_ in boxes
            for pair in np.argwhere((apart >= lo) & (apart <= hi)).tolist()
        ]
        found = Counter(zip(event.tolist(), row.tolist(), strict=True))
        assert found == Counter(map(tuple, expected)) and set(found.values()) <= {1}


def test_selects(seed: int) -> None:
    chance, keys = Random(seed), [*range(-9, 10), 2**63 - 1, -(2**63)]
    for case in range(40):
        size, events = chance.randrange(0, 40), chance.randrange(0, 20)
        b, c = (np.array(chance.choices(own, k=size), np.int64) for own in (range(4), keys))
        eb, ea = (
            np.sort(chance.choices(range(5), k=events)),
            np.array(chance.choices(keys, k=events), np.int64),
        )
        boxes, side = disjoint(draw_selects(chance, chance.choice([1, 6]))), case % 2
        runs = runs_of(SELECT, boxes, side, image_of(b, c, 1 + case % 3), eb, ea)
        event, row = expanded(runs, np.arange(events))
        expected = []
        for e in range(events):
            for r in range(size):
                x, y = (ea[e], c[r]) if side == 0 else (c[r], ea[e])
                if eb[e] == b[r] and any(
                    box[0] <= x <= box[1] and box[2] <= y <= box[3] for box in boxes
                ):
                    expected.append((e, r))
        assert Counter(zip(event.tolist(), row.tolist(), strict=True)) == Counter(expected)
