"""Rows and standing joins as in the thesis's table 4.1: R.B and the selected attributes uniform
over the domain, S.B normal, middles of the ranges of b and c uniform, lengths normal.  Numbers are
whole.  No clock in here.

J. Xie, "Handling Resource Constraints and Scalability in Continuous Query Processing", PhD thesis,
Duke University, 2007.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from headrace.families.joins.selects.index import Events, Rectangles, Rows
from headrace.relations.arrays import Ints

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
    """Values of b of the rows of S, in order."""
    return np.sort(_whole(rng.normal(DOMAIN / 2, DOMAIN / 10, rows)))


def draw_events(rng: Generator, count: int) -> Ints:
    """Values of b of the events, which are rows of R, in order."""
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


# -- routing and hotspots: numbers of c are finer, so that thousands of groups have room -----------

FINE = 100 * DOMAIN
MIDDLE_A, LENGTH_A, LENGTH_C = 0.15 * DOMAIN, 0.1 * DOMAIN, 0.06 * FINE


def draw_spread(rng: Generator, count: int) -> Rectangles:
    """Middles of a normal, so that few queries have an a at the rims; those of c uniform: some 50
    groups, all large."""
    return Rectangles(
        np.arange(count),
        *_normal_a(rng, count),
        *_ranges(rng, rng.uniform(0, FINE, count), LENGTH_C),
    )


def draw_popular(rng: Generator, count: int, shares: NDArray[np.float64]) -> Rectangles:
    """The same with as many stabbing groups as there are shares, of about those shares of all
    queries: ranges of c around one point for each, that do not reach to the next group."""
    width = FINE / shares.size
    points = (rng.permutation(shares.size) + 0.5)[rng.choice(shares.size, count, p=shares)] * width
    before, after = np.clip(rng.normal(width / 4, width / 20, (2, count)), 0, 0.45 * width)
    c = (points - before).astype(np.int64), (points + after).astype(np.int64)
    return Rectangles(np.arange(count), *_normal_a(rng, count), *c)


def zipf_shares(groups: int) -> NDArray[np.float64]:
    """Of the k-th group in proportion to 1/k (figure 4.2)."""
    weights: NDArray[np.float64] = 1 / np.arange(1.0, groups + 1)
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def hot_shares(groups: int, hot: int, share: float) -> NDArray[np.float64]:
    """So many hot groups have this share of all queries, evenly; the others have the rest."""
    return np.repeat([share / hot, (1 - share) / (groups - hot)], [hot, groups - hot])


def draw_joined_rows(rng: Generator, rows: int) -> Rows:
    """S by b, then c: b normal, each of some 6,000 values of it."""
    b, c = _whole(rng.normal(DOMAIN / 2, DOMAIN / 10, rows)), rng.integers(0, FINE, rows)
    order = np.lexsort((c, b))
    return Rows(b[order], c[order])


def draw_joined_events(
    rng: Generator, count: int, a: float | None = None, b: float | None = None
) -> Events:
    """Both uniform, or near a value."""
    return Events(_near(rng, count, a), np.sort(_near(rng, count, b)))


def _near(rng: Generator, count: int, value: float | None) -> Ints:
    if value is None:
        return rng.integers(0, DOMAIN, count)
    return _whole(rng.normal(value, DOMAIN / 50, count))


def _normal_a(rng: Generator, count: int) -> tuple[Ints, Ints]:
    return _ranges(rng, rng.normal(DOMAIN / 2, MIDDLE_A, count), LENGTH_A)
