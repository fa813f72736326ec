"""Rows and standing joins as in the thesis's table 4.1: R.B and the selected attributes uniform over the domain, S.B
normal, middles of the ranges of b and c uniform, lengths normal.  Numbers are whole.  No clock in here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from headrace.families.joins.arrays import Ints
from headrace.families.joins.select_index import Events, Rectangles, Rows

DOMAIN = 10_000
ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Bands:
    """Band joins: lengths have this mean, and a fifth of it as deviation."""

    lo: Ints
    hi: Ints


def draw_bands(rng: Generator, count: int, length: float) -> Bands:
    return Bands(*_ranges(rng, rng.uniform(0, DOMAIN, count), length))


def draw_rows(rng: Generator, rows: int = ROWS) -> Ints:
    """S.B, in order."""
    return np.sort(_whole(rng.normal(DOMAIN / 2, DOMAIN / 10, rows)))


def draw_events(rng: Generator, count: int) -> Ints:
    """R.B, in order."""
    return np.sort(rng.integers(0, DOMAIN, count))


def draw_rectangles(rng: Generator, count: int, length: float, selectivity: float) -> Rectangles:
    """Select-joins: an event's a is within the range of about this share of them."""
    a = _ranges(rng, rng.uniform(0, DOMAIN, count), DOMAIN * selectivity)
    c = _ranges(rng, rng.uniform(0, DOMAIN, count), length)
    return Rectangles(np.arange(count), *a, *c)


def draw_keyed_rows(rng: Generator, joining: float, rows: int = ROWS) -> Rows:
    """S by b, then c; about so many rows have the b of an event."""
    b = _whole(rng.normal(DOMAIN / 2, DOMAIN / 10, rows)) * rows // int(DOMAIN * joining)
    c = rng.integers(0, DOMAIN, rows)
    order = np.lexsort((c, b))
    return Rows(b[order], c[order])


def draw_keyed_events(rng: Generator, rows: Rows, count: int) -> Events:
    """Each has the b of some row."""
    b = np.sort(rng.choice(rows.b, count))
    return Events(rng.integers(0, DOMAIN, count), b)


def _ranges(rng: Generator, middle: NDArray[np.float64], length: float) -> tuple[Ints, Ints]:
    half = np.abs(rng.normal(length, length / 5, middle.size)) / 2
    return np.floor(middle - half).astype(np.int64), np.ceil(middle + half).astype(np.int64)


def _whole(values: NDArray[np.float64]) -> Ints:
    return np.clip(values, 0, DOMAIN).astype(np.int64)
