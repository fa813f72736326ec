"""Queries that somebody else answers from a certain time on: windows that start before it are still
answered here, until the last of them has closed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headrace.families.windows.rings.ring_members import Closed

Ints = NDArray[np.int64]
Until = Mapping[int, int]
"""Query id → windows of it that start at this time, or later, others answer."""
NEVER: Until = {}


def counts_until(ring: Closed, counts: Ints, until: Until) -> Ints:
    """How many answers of a ring are for each of its members, if these ones are answered only for
    windows that start before a time; of a shape the earlier windows come first."""
    sitting, answers = ring.members, ring.answers
    handed = [i for i, q in enumerate(sitting.ids.tolist()) if q in until] if until else []
    if not handed:
        return counts
    found, grain_us = counts.copy(), ring.standing.plan.grain_us
    for i in handed:
        shape = sitting.shapes[i]
        ends = answers.end[answers.offsets[shape] : answers.offsets[shape + 1]]
        starts_us = (ends - sitting.windows.range_panes[shape]) * grain_us
        found[i] = np.searchsorted(starts_us, until[int(sitting.ids[i])], side="left")
    return found
