"""What partials, rings and answers are made of: arrays `[row, column, group]`, and the code that
says how a column is joined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]

ADD, MIN, MAX, MOMENTS_N, MOMENTS_MEAN, MOMENTS_M2 = range(6)

# Cells of a ring's clock: next pane to close, last closed pane that holds rows, whether the next
# pane is already in the ring and only its answers are missing, partials used, answers written,
# blocks written, and the shape whose answers come next.
NEXT, LAST, ENTERED, USED, WRITTEN, BLOCKS, SHAPE = range(7)

INT_MAX = np.iinfo(np.int64).max
INT_MIN = np.iinfo(np.int64).min


class Ops(NamedTuple):
    """The op code of each column."""

    ints: Ints
    floats: Ints


class Rows(NamedTuple):
    """`[row, column, group]`; a row that is not live is empty: all identities.

    There is room for more groups than there are.  It is never touched, so that it takes no
    memory."""

    ints: Ints
    floats: Floats
    live: Flags


class Columns(NamedTuple):
    """Partials or answers as columns `[column, item]`.  Answers leave `pane` empty."""

    pane: Ints
    group: Ints32
    ints: Ints
    floats: Floats
