"""Records of who is affected, written and read again, against every event beside every row and
range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.families.joins.bands import probes as band_probes
from headrace.families.joins.bands import scattered as band_scattered
from headrace.families.joins.cost import ONE_BY_ONE, PREFIXES
from headrace.families.joins.levels import probes, shapes
from headrace.families.joins.levels.level import Level
from headrace.families.joins.levels.probes import Looked, Probes, Rates, Written, prober
from headrace.families.joins.levels.standing import Standing
from headrace.families.joins.plan import BAND, FILTER, NOBODY, SELECT, Box, JoinShape
from headrace.families.joins.selects.methods import METHODS
from headrace.families.joins.stabbing import hot_points
from headrace.relations.image import Image
from headrace.relations.row_files import map_table
from headrace.sql.tree import Column
from headrace.values import BIGINT, DOUBLE
from tests.families.joins.played import FORCED

EXTREME = 2**62 - 1
BANDS = {
    kind.name: JoinShape(("r", "s"), BAND, ((Column("b", kind),), (Column("b", kind, 1),)))
    for kind in (BIGINT, DOUBLE)
}
SELECTS = JoinShape(
    ("r", "s"),
    SELECT,
    ((Column("b", BIGINT),), (Column("b", BIGINT, 1),)),
    (Column("a", BIGINT), Column("c", BIGINT, 1)),
)
FILTERS = JoinShape(("r", NOBODY), FILTER, ((), ()), (Column("a", BIGINT), None))
Values = NDArray[Any]
Pairs = set[tuple[int, int]]


def level_of(shape: JoinShape, boxes: Sequence[Box]) -> Level:
    standing = Standing(shape)
    standing.update({100 + i: (box,) for i, box in enumerate(boxes)}, [])
    (level,) = standing.levels
    return level


def image_of(b: Values, c: Values, pieces: int) -> Image:
    image = Image()
    for rows in np.array_split(np.arange(b.size), pieces):
        image = image.add(b[rows], c[rows], rows)
    return image


def probed(
    root: Path,
    level: Level,
    kind: str,
    side: int,
    image: Image,
    b: Values,
    a: Values,
    rates: Rates | None = None,
) -> tuple[Pairs, list[Written]]:
    """Who is affected, as files say that were written for these events."""
    found, written, _ = looked_up(root, level, kind, side, image, b, a, rates)
    return found, written


def looked_up(
    root: Path,
    level: Level,
    kind: str,
    side: int,
    image: Image,
    b: Values,
    a: Values,
    rates: Rates | None = None,
) -> tuple[Pairs, list[Written], list[Looked]]:
    """And what that took."""
    own = prober(kind, level, side)
    event = np.argsort(b, kind="stable")
    probes = Probes(root, "p", 3)
    written = list(probes.probe(5, own, image, event, b, a, rates))
    found: Pairs = set()
    for w in written:
        assert (w.look, w.level) == (3, 5) and (root / w.path).stat().st_size == w.size
        events, ids = own.affected(map_table(root / w.path, w.size, w.crc))
        found |= set(zip(events.tolist(), ids.tolist(), strict=True))
    return found, written, probes.looked


def draw_numbers(chance: Random, name: str, size: int) -> Values:
    if name == DOUBLE.name:
        return np.array(
            [
                chance.choice([0.1 * chance.randrange(-40, 40), 0.0, -0.0, 1e308, -1e308, 5e-324])
                for _ in range(size)
            ]
        )
    return np.array(
        [chance.choice([chance.randrange(-40, 40), EXTREME, -EXTREME]) for _ in range(size)],
        np.int64,
    )


def draw_bands(chance: Random, name: str, count: int) -> list[Box]:
    found = []
    for _ in range(count):
        lo, hi = sorted(draw_numbers(chance, name, 2).tolist())
        ends = (math.inf, -math.inf) if name == DOUBLE.name else (2**63 - 1, 1 - 2**63)
        lo, hi = chance.choice([(lo, hi), (lo, hi), (lo, lo), (lo, ends[0]), (ends[1], hi)])
        found.append((lo, hi, lo, hi))
    return found


def expected_bands(boxes: Sequence[Box], side: int, rows: Values, events: Values) -> Pairs:
    with np.errstate(over="ignore"):
        apart = rows[None, :] - events[:, None] if side == 0 else events[:, None] - rows[None, :]
    return {
        (int(e), 100 + q)
        for q, (lo, hi, *_) in enumerate(boxes)
        for e in np.flatnonzero(((apart >= lo) & (apart <= hi)).any(axis=1))
    }


@pytest.mark.parametrize("name", BANDS)
@pytest.mark.parametrize("dense_max", [0, 512])
def test_bands(tmp_path: Path, name: str, dense_max: int, seed: int) -> None:
    chance = Random(seed)
    for case in range(25):
        events = draw_numbers(chance, name, 600 if case == 0 else chance.randrange(1, 30))
        rows = draw_numbers(chance, name, chance.randrange(1, 50))
        boxes = draw_bands(chance, name, chance.randrange(1, 40))
        image, side = (
            image_of(rows, np.zeros(rows.size, np.int64), chance.randrange(1, 4)),
            case % 2,
        )
        with (
            patch.object(band_probes, "DENSE_MAX", dense_max),
            patch.object(band_probes, "AT_ONCE", 1),
            patch.object(band_probes, "FEW_GROUPS", 99),
            patch.object(band_probes, "EVENTS_LEAST", 256),
            patch.object(shapes, "FILE_BYTES", 1),
        ):
            found, written = probed(
                tmp_path, level_of(BANDS[name], boxes), BAND, side, image, events, events
            )
        assert found == expected_bands(boxes, side, rows, events)
        assert len(written) == 3 if case == 0 else len(written) <= 1  # so many chunks of 256
        is_dense = dense_max > 0
        assert all(
            ("l0" in map_table(tmp_path / w.path, w.size, w.crc).column_names) == is_dense
            for w in written
        )


@pytest.mark.parametrize("name", BANDS)
@pytest.mark.parametrize("dense_max", [0, 512])
def test_scattered_bands_are_listed(tmp_path: Path, name: str, dense_max: int, seed: int) -> None:
    """Whichever groups are hot, and however little is listed at a time."""
    chance, used = Random(seed), set[str]()
    for case in range(60):
        events = draw_numbers(chance, name, chance.randrange(1, 30))
        rows = draw_numbers(chance, name, chance.choice([1, 20, 400]))
        boxes = draw_bands(chance, name, chance.choice([1, 40, 300]))
        image, side = (
            image_of(rows, np.zeros(rows.size, np.int64), chance.randrange(1, 4)),
            case % 2,
        )
        with (
            patch.object(band_probes, "DENSE_MAX", dense_max),
            patch.object(band_probes, "FEW_GROUPS", 0),
            patch.object(band_probes, "STEP_S", chance.choice([0.0, 3e-9])),
            patch.object(band_probes, "RECORD_S", chance.choice([0.0, 8e-9])),
            patch.object(band_scattered, "ROOM", chance.choice([1, 1_000])),
            patch.object(hot_points, "HOT_LEAST", chance.choice([1, 2, 16])),
        ):
            found, _, looked = looked_up(
                tmp_path, level_of(BANDS[name], boxes), BAND, side, image, events, events
            )
        assert found == expected_bands(boxes, side, rows, events)
        used |= {method for own in looked for method in own.events}
        assert [sum(own.events.values()) for own in looked] == [events.size]
    assert used == {"groups", "hotspots", ONE_BY_ONE}


def test_many_groups_are_no_reason_to_look_each_up() -> None:
    """Narrow ranges all over the line: none has a group of its own, but those without an end have
    one together."""
    rng = np.random.default_rng(5)
    lo = rng.integers(0, 10**6, 4_000)
    hi = np.where(np.arange(4_000) % 4, lo + 2, 2**62)
    level = level_of(
        BANDS[BIGINT.name], [(a, b, a, b) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
    )
    rows, events = (np.sort(rng.integers(0, 10**6, size)) for size in (3_000, 50))
    own = prober(BAND, level, 0)
    assert isinstance(own, band_probes.Bands) and level.groups(0) > 2_000
    parts = list(
        own.records(image_of(rows, np.zeros_like(rows), 2), np.arange(50), events, events, None)
    )
    tables = [part.table for part in parts]
    assert sum(t.num_rows for t in tables if "q" in t.column_names) < 50 * 60
    assert [t.num_columns for t in tables if "l0" in t.column_names] == [3]


def test_filters(tmp_path: Path, seed: int) -> None:
    """Hot groups as prefixes, the rest in lists of few at a time."""
    chance, used = Random(seed), set[str]()
    for _ in range(60):
        values = np.array(
            chance.choices([*range(-9, 10), 2**63 - 1, -(2**63)], k=chance.randrange(1, 60)),
            np.int64,
        )
        boxes = draw_selects(chance, chance.choice([1, 20, 200]))
        with (
            patch.object(probes, "DENSE_MAX", chance.choice([0, 2, 512])),
            patch.object(probes, "STABBED_AT_ONCE", chance.choice([1, 30])),
            patch.object(probes, "FILTERED_AT_ONCE", chance.choice([5, 1_000])),
            patch.object(hot_points, "HOT_SHARE", chance.choice([1, 3, 256])),
            patch.object(hot_points, "HOT_LEAST", chance.choice([1, 3, 16])),
        ):
            found, _, looked = looked_up(
                tmp_path, level_of(FILTERS, boxes), FILTER, 0, Image(), values, values
            )
        expected = {
            (e, 100 + q)
            for e, value in enumerate(values)
            for q, (lo, hi, *_) in enumerate(boxes)
            if lo <= value <= hi
        }
        assert found == expected
        used |= {method for own in looked for method in own.events}
        assert [sum(own.events.values()) for own in looked] == [values.size]
    assert used == {PREFIXES, "hotspots", ONE_BY_ONE}


def test_filters_without_an_end_are_one_group() -> None:
    """However many narrow ones are among them: an event has one record for all, and a list of
    few."""
    rng = np.random.default_rng(6)
    lo = rng.integers(0, 10**6, 10_000)
    hi = np.where(np.arange(10_000) % 2, lo + 10, 2**63 - 1)
    level = level_of(FILTERS, [(a, b, a, b) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)])
    values = rng.integers(0, 10**6, 2_000)
    own = prober(FILTER, level, 0)
    parts = list(own.records(Image(), np.arange(2_000), values, values, None))
    assert sum(part.table.num_rows for part in parts) < 2 * 2_000


def draw_selects(chance: Random, count: int) -> list[Box]:
    ends = [*range(-9, 10), 2**63 - 1, -(2**63), EXTREME]
    found = []
    for _ in range(count):
        (a, b), (c, d) = (sorted(chance.choices(ends, k=2)) for _ in range(2))
        found.append((a, b, c, d))
    return found


@pytest.mark.parametrize("forced", FORCED)
def test_selects(tmp_path: Path, forced: str, seed: int) -> None:
    rates = FORCED[forced]
    chance = Random(seed)
    for case in range(25):
        size, count = chance.randrange(1, 60), chance.randrange(1, 40)
        keys = [*range(-9, 10), 2**63 - 1, -(2**63)]
        b, c = (np.array(chance.choices(own, k=size), np.int64) for own in (range(4), keys))
        eb, ea = (np.array(chance.choices(own, k=30), np.int64) for own in (range(5), keys))
        boxes, side = draw_selects(chance, count), case % 2
        image = image_of(b, c, 1 + case % 3)
        found, _, (looked,) = looked_up(
            tmp_path, level_of(SELECTS, boxes), SELECT, side, image, eb, ea, rates
        )
        seen = boxes if side == 0 else [(*box[2:], *box[:2]) for box in boxes]
        expected = {
            (e, 100 + q)
            for q, (lo, hi, least, most) in enumerate(seen)
            for e in range(30)
            if lo <= ea[e] <= hi and ((b == eb[e]) & (c >= least) & (c <= most)).any()
        }
        assert found == expected
        assert (looked.look, looked.level, looked.rows) == (3, 5, 30) and looked.seconds > 0
        assert sum(looked.events.values()) == 30 * len(image.segments), (
            "whether they affect anybody or not"
        )
        assert forced in ("hotspots", "mixed") or looked.events.keys() == {forced}
        assert set(looked.alone_s) <= set(METHODS) and forced in (
            *looked.alone_s,
            "hotspots",
            "mixed",
        )


def test_rates_are_fitted_once_there_are_enough_events_and_are_kept(tmp_path: Path) -> None:
    chance = Random(3)
    b, c = (np.array(chance.choices(range(9), k=300), np.int64) for _ in range(2))
    eb, ea = (np.array(chance.choices(range(9), k=600), np.int64) for _ in range(2))
    level, image = level_of(SELECTS, draw_selects(chance, 30)), image_of(b, c, 1)
    by_groups, _, (looked,) = looked_up(tmp_path, level, SELECT, 0, image, eb, ea, FORCED["groups"])
    assert looked.rates is None
    found, _, (looked,) = looked_up(tmp_path, level, SELECT, 0, image, eb, ea)
    assert found == by_groups and looked.rates is not None
    found, _, (looked,) = looked_up(tmp_path, level, SELECT, 0, image, eb[:100], ea[:100])
    assert found == {pair for pair in by_groups if pair[0] < 100} and looked.rates is None


def test_rates_are_kept_and_events_counted_where_nobody_is_affected(tmp_path: Path) -> None:
    rows, events = np.arange(600), np.arange(600)
    level, image = level_of(SELECTS, [(0, 9, 1_000, 2_000)]), image_of(rows, rows, 1)
    found, written, (looked,) = looked_up(tmp_path, level, SELECT, 0, image, events, events)
    assert not found and not written and looked.rates is not None
    assert sum(looked.events.values()) == 600 and looked.alone_s


def test_rates_are_fitted_to_events_that_join(tmp_path: Path) -> None:
    """Those that do not tell nothing of what methods take; rates of nothing, if some were kept, are
    measured again."""
    level, events = level_of(SELECTS, draw_selects(Random(4), 30)), np.arange(5_000)
    few, many = (image_of(events[:size], np.zeros(size, np.int64), 1) for size in (20, 200))
    for image, is_fitted in ((few, False), (many, True)):
        for rates in (None, {"groups": [0.0] * 4}):
            a = np.zeros(5_000, np.int64)
            found, _, (looked,) = looked_up(tmp_path, level, SELECT, 0, image, events, a, rates)
            assert (looked.rates is not None) == is_fitted and all(
                any(own) for own in (looked.rates or {}).values()
            )
            assert {e for e, _ in found} == set(range(len(image)))


@pytest.mark.parametrize(
    "rates", [FORCED["groups"], FORCED["select_first"]], ids=["groups", "select_first"]
)
def test_a_piece_has_no_more_records_than_it_may(rates: Rates) -> None:
    """As soon as it is known how many events have."""
    rng = np.random.default_rng(7)
    a, c = rng.integers(0, 900, (2, 500)).tolist()
    level = level_of(SELECTS, [(x, x + 100, y, y + 60) for x, y in zip(a, c, strict=True)])
    image = image_of(np.zeros(50, np.int64), rng.integers(0, 1_000, 50), 1)
    events, b = rng.integers(0, 1_000, 4_000), np.zeros(4_000, np.int64)
    with patch.object(probes, "RECORDS_AT_ONCE", 2_000), patch.object(probes, "FIRST_PIECE", 100):
        sizes = [
            part.table.num_rows
            for part in prober(SELECT, level, 0).records(image, np.arange(4_000), b, events, rates)
        ]
    assert sum(sizes) > 100_000 and max(sizes[1:]) < 8_000


def test_records_of_one_shape_are_in_few_files(tmp_path: Path) -> None:
    chance = Random(8)
    b, c = (np.array(chance.choices(range(9), k=300), np.int64) for _ in range(2))
    eb, ea = (np.array(chance.choices(range(9), k=600), np.int64) for _ in range(2))
    level, image = level_of(SELECTS, draw_selects(chance, 30)), image_of(b, c, 1)
    with patch.object(probes, "FIRST_PIECE", 10), patch.object(probes, "RECORDS_AT_ONCE", 100):
        found, written, (looked,) = looked_up(
            tmp_path, level, SELECT, 0, image, eb, ea, FORCED["groups"]
        )
        assert len(written) == 1 and looked.events == {"groups": 600}
        with patch.object(shapes, "FILE_BYTES", 2_000):
            again, written, (looked,) = looked_up(
                tmp_path, level, SELECT, 0, image, eb, ea, FORCED["groups"]
            )
    assert again == found and len(written) > 3 and looked.events == {"groups": 600}


def test_nothing_is_written_where_nothing_is_found(tmp_path: Path) -> None:
    none = np.empty(0, np.int64)
    events = np.array([1, 2])
    level = level_of(SELECTS, [(0, 9, 0, 9)])
    assert probed(tmp_path, level, SELECT, 0, Image(), events, events) == (set(), [])
    assert probed(
        tmp_path, level, SELECT, 0, image_of(np.array([5]), np.array([5]), 1), events, events
    ) == (set(), [])
    assert probed(tmp_path, level, SELECT, 0, image_of(events, events, 1), none, none) == (
        set(),
        [],
    )
