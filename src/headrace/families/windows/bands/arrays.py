"""What the kernels that fold rows into bands are given, and where they write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.kernel_cache import numba

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
PAGE = 64


class Stretches(NamedTuple):
    """Rows by pane, group and segment of the first cell; `ranks[c, row]` are of the other cells."""

    starts: Ints
    pane: Ints
    group: Ints32
    segment: Ints32
    ranks: Ints32
    ints: Ints
    floats: Floats


class Bands(NamedTuple):
    """What is asked for: the shared ring each band is for, and its intervals of segments `at[band]`
    … `at[band + 1]`.

    Intervals of the other cells, those of one band together, are of ranks: `others_at[band · cells
    + c]` …"""

    number: Ints
    shared_ring: Ints
    at: Ints
    first: Ints
    last: Ints
    others_at: Ints
    others_first: Ints32
    others_last: Ints32


class SharedRings(NamedTuple):
    """Which columns a shared ring keeps, and where its rows are written: from `base` on there is
    `room` for so many, a column of them at `int_base + column · room`."""

    int_at: Ints
    int_columns: Ints
    float_at: Ints
    float_columns: Ints
    room: Ints
    base: Ints
    int_base: Ints
    float_base: Ints


class Numbers(NamedTuple):
    """The number of a band group: `pool[page[group, band // PAGE], band % PAGE]`, -1 if there is
    none yet.

    New ones are given by `next`, one counter a shared ring; `fresh` lists them as (shared ring,
    band, group)."""

    page: Ints32
    pool: Ints32
    next: Ints
    fresh: Ints
    used: Ints  # pages, fresh band groups


class Written(NamedTuple):
    """Rows of all shared rings, and how many each has."""

    rows: Ints
    pane: Ints
    band_group: Ints32
    ints: Ints
    floats: Floats


class Scratch(NamedTuple):
    """Room for one stretch: the held segment of each row, for each segment how many before it hold
    rows, where the rows of each held one begin, the table; which rows lie in a band, extremes as
    whole numbers, and which columns have one value only."""

    held: Ints
    before: Ints
    row: Ints
    ints: Ints
    floats: Floats
    mask: Ints
    ordered: Ints
    same: Ints


@numba.njit(cache=True, nogil=True, inline="always")
def band_group_of(
    shared_ring: int,
    band: int,
    group: int,
    page: Ints32,
    pool: Ints32,
    following: Ints,
    fresh: Ints,
    used: Ints,
) -> int:
    """The number of a band group; a new one is given and noted."""
    place = page[group, band // PAGE]
    if place < 0:
        place = used[0]
        used[0] += 1
        page[group, band // PAGE] = place
        pool[place] = -1
    band_group: int = pool[place, band % PAGE]
    if band_group < 0:
        band_group = following[shared_ring]
        following[shared_ring] += 1
        pool[place, band % PAGE] = band_group
        fresh[0, used[1]], fresh[1, used[1]], fresh[2, used[1]] = shared_ring, band, group
        used[1] += 1
    return band_group
