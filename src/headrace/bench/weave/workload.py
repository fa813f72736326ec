"""The windows of section 6 of the paper: slides by Zipf from templates, ranges as multiples of
slides.

The paper names the limits, not the values: slides are "template window specifications" within 1 …
100,000, skewed to large ones; the overlap is "uniformly distributed between 1.0 and Ω_max".  Here
the templates are 1, 2, 5, 10, … 100,000 and overlaps are real numbers, rounded so that ranges are
whole: of the sets tried, these come nearest to the published points (`docs/weave.md`).  `whole`
overlaps make every range a multiple of its slide.

S. Guirguis, M. A. Sharaf, P. K. Chrysanthis, A. Labrinidis, "Optimized Processing of Multiple
Aggregate Continuous Queries", CIKM 2011.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.families.windows.weave.edges import Shape

TEMPLATES = (*(digit * 10**power for power in range(5) for digit in (1, 2, 5)), 100_000)
# more slides: more windows with edges of their own
DIVISORS = tuple(d for d in range(1, 100_001) if 100_800 % d == 0)
HUMAN = (
    1,
    2,
    5,
    10,
    15,
    20,
    30,
    60,
    120,
    300,
    600,
    900,
    1_200,
    1_800,
    3_600,
    7_200,
    14_400,
    21_600,
    43_200,
    86_400,
)


@dataclass(frozen=True, slots=True)
class Workload:
    """What table 1 varies.  `seed` draws one instance."""

    queries: int
    overlap_max: float = 50.0
    skew: float = 0.6
    seed: int = 7
    whole: bool = False
    templates: tuple[int, ...] = TEMPLATES

    def shapes(self) -> list[Shape]:
        """Windows in the order they are registered."""
        random = np.random.default_rng(self.seed)
        slides = np.sort(np.array(self.templates))[::-1]
        odds = np.arange(1.0, slides.size + 1) ** -self.skew  # the first rank is the largest slide
        drawn = random.choice(slides, self.queries, p=odds / odds.sum())
        overlaps = random.uniform(1.0, self.overlap_max, self.queries)
        if self.whole:
            overlaps = np.rint(overlaps)
        ranges = np.maximum(1, np.rint(overlaps * drawn)).astype(np.int64)
        return [Shape(r, s) for r, s in zip(ranges.tolist(), drawn.tolist(), strict=True)]
