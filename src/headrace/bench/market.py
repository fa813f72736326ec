"""A seeded market: trades of 100 symbols, and as many distinct window queries over them as asked
for.

Trades arrive nearly in order: a few are delayed, never more than DELAY_MAX_S, so a stream declared
with `late=LATE` drops none.  The clock is never read; the same generator gives the same market. The
queries differ in what a sharing plan must reconcile: range, slide, predicate, group, aggregates,
HAVING.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.values import US_PER_S

SCHEMA = "symbol STRING, price DOUBLE, qty INT, side STRING, venue STRING, ts TIMESTAMP"
TIME = "ts"
LATE = "2 seconds"
DELAY_MAX_S = 2.0
START_US = 1_735_741_800 * US_PER_S  # 2025-01-01 14:30 UTC

SIDES = ("BUY", "SELL")
VENUES = ("ARCX", "BATS", "XNAS", "XNYS")
SYMBOLS = tuple(a + b + c for a in "ABGMT" for b in "AEIO" for c in "KLNSX")

RANGES_S = (
    10,
    15,
    20,
    30,
    45,
    60,
    75,
    90,
    120,
    180,
    240,
    300,
    420,
    600,
    900,
    1200,
    1800,
    2700,
    3600,
)
SLIDES_S = (1, 2, 5, 10, 15, 20, 30, 60, 90, 120, 300, 600)
OVERLAP_MAX = 360

PREDICATES = (
    "",
    "qty > 100",
    "qty >= 500",
    "qty > 1000",
    "qty BETWEEN 100 AND 500",
    "qty % 100 = 0",
    "qty IS NOT NULL",
    "price > 50",
    "price <= 100",
    "price BETWEEN 20 AND 80",
    "price IS NOT NULL AND qty IS NOT NULL",
    "side = 'BUY'",
    "side = 'SELL'",
    "venue = 'XNYS'",
    "venue IN ('XNAS', 'ARCX')",
    "venue <> 'BATS'",
    "symbol LIKE 'A%'",
    "symbol LIKE '%X'",
    "symbol IN ('AAK', 'BEL', 'GIN', 'MOS', 'TAX')",
    "NOT symbol LIKE 'T%'",
    "price * qty > 10000",
    "price * qty >= 100000",
    "side = 'BUY' AND qty > 100",
    "side = 'SELL' OR price > 100",
    "(price > 50 AND qty < 500) OR venue = 'XNYS'",
    "CASE WHEN side = 'BUY' THEN qty > 100 ELSE qty > 500 END",
)

GROUPS: tuple[tuple[str, ...], ...] = (
    (),
    ("symbol",),
    ("side",),
    ("venue",),
    ("symbol", "side"),
    ("lower(venue) AS place",),
    ("substr(symbol, 1, 1) AS sector", "side"),
)
GROUP_WEIGHTS = (0.16, 0.30, 0.12, 0.14, 0.10, 0.10, 0.08)

AGGREGATES = (
    "count(*) AS trades",
    "count(price) AS priced",
    "sum(qty) AS volume",
    "sum(price * qty) AS notional",
    "sum(price * qty) / sum(qty) AS vwap",
    "avg(price) AS mean_price",
    "avg(qty) AS mean_qty",
    "min(price) AS low",
    "max(price) AS high",
    "max(price) - min(price) AS spread",
    "min(qty) AS least",
    "max(qty) AS most",
    "stddev(price) AS price_sd",
    "variance(qty) AS qty_var",
    "stddev_pop(qty) AS qty_sd",
    "100 * stddev_pop(price) / avg(price) AS jitter_pct",
    "sum(CASE WHEN side = 'BUY' THEN qty ELSE 0 END) AS bought",
    "avg(price) * 2 + 1 AS twice_and_one",
)

HAVINGS = ("count(*) > 10", "avg(price) > 50", "sum(qty) > 1000", "max(price) - min(price) > 0.5")
HAVING_SHARE = 0.2


@dataclass(slots=True)
class Market:
    """Prices that walk on from call to call."""

    rng: np.random.Generator
    levels: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.levels = np.exp(self.rng.uniform(np.log(8.0), np.log(400.0), len(SYMBOLS)))

    def trades(self, start_us: int, seconds: int, rows_per_second: int) -> pa.Table:
        """Rows in order of arrival; event times lie in [start − DELAY_MAX_S, start + seconds)."""
        rng, rows = self.rng, seconds * rows_per_second
        arrival_s = np.sort(rng.random(rows)) * seconds
        symbol = _popular(rng, len(SYMBOLS), rows)
        price = self._walk(seconds)[arrival_s.astype(np.int64), symbol] * np.exp(
            rng.normal(0.0, 5e-4, rows)
        )
        delay_s = np.where(rng.random(rows) < 0.03, rng.random(rows) * DELAY_MAX_S, 0.0)
        columns = {
            "symbol": _words(SYMBOLS, symbol),
            "price": pa.array(np.round(price, 2), mask=rng.random(rows) < 0.004),
            "qty": pa.array(_lots(rng, rows), mask=rng.random(rows) < 0.004),
            "side": _words(SIDES, rng.integers(0, len(SIDES), rows)),
            "venue": _words(VENUES, _popular(rng, len(VENUES), rows)),
            "ts": pa.array(
                start_us + ((arrival_s - delay_s) * US_PER_S).astype(np.int64),
                pa.timestamp("us", "UTC"),
            ),
        }
        return pa.table(columns)

    def _walk(self, seconds: int) -> np.ndarray:
        """Price levels, one row a second, one column a symbol; the last row is where the next call
        begins."""
        steps = np.cumsum(self.rng.normal(0.0, 4e-4, (seconds, len(SYMBOLS))), axis=0)
        levels: np.ndarray = self.levels * np.exp(steps)
        self.levels = levels[-1]
        return levels


def trades(rng: np.random.Generator, start_us: int, seconds: int, rows_per_second: int) -> pa.Table:
    """One stretch of a new market."""
    return Market(rng).trades(start_us, seconds, rows_per_second)


def queries(rng: np.random.Generator, n: int, stream: str = "trades") -> dict[str, str]:
    """`n` window queries, no two of which ask for the same."""
    shapes: dict[tuple[object, ...], str] = {}
    attempts_max = 100 * n + 1000
    for _ in range(attempts_max):
        if len(shapes) == n:
            break
        shape = _draw(rng)
        if shape not in shapes:
            shapes[shape] = _text(stream, *shape)
    else:
        raise HeadraceError(
            "the market has not that many distinct queries", value=n, hint="ask for fewer"
        )
    return {f"q{i:05d}": sql for i, sql in enumerate(shapes.values(), 1)}


Shape = tuple[int, int, str, tuple[str, ...], tuple[str, ...], str]


def _windows() -> tuple[list[tuple[int, int]], np.ndarray]:
    """Every range with every slide that fits it, tumbling included; long slides are more common
    than short ones."""
    pairs = [(r, s) for r in RANGES_S for s in sorted({*SLIDES_S, r}) if s <= r <= s * OVERLAP_MAX]
    weights = np.array([s**0.5 for _, s in pairs])
    return pairs, weights / weights.sum()


_PAIRS, _PAIR_WEIGHTS = _windows()


def _draw(rng: np.random.Generator) -> Shape:
    range_s, slide_s = _PAIRS[rng.choice(len(_PAIRS), p=_PAIR_WEIGHTS)]
    predicate = PREDICATES[rng.integers(len(PREDICATES))]
    group = GROUPS[rng.choice(len(GROUPS), p=GROUP_WEIGHTS)]
    picked = np.sort(rng.choice(len(AGGREGATES), size=rng.integers(1, 4), replace=False))
    having = HAVINGS[rng.integers(len(HAVINGS))] if rng.random() < HAVING_SHARE else ""
    return range_s, slide_s, predicate, group, tuple(AGGREGATES[i] for i in picked), having


def _text(
    stream: str,
    range_s: int,
    slide_s: int,
    predicate: str,
    group: tuple[str, ...],
    aggregates: tuple[str, ...],
    having: str,
) -> str:
    slide = "" if slide_s == range_s else f", '{_duration(slide_s)}'"
    keys = [key.split(" AS ")[0] for key in group] + [
        f"window({TIME}, '{_duration(range_s)}'{slide})"
    ]
    parts = [
        f"SELECT {', '.join(group + aggregates)} FROM {stream}",
        f"WHERE {predicate}" if predicate else "",
        f"GROUP BY {', '.join(keys)}",
        f"HAVING {having}" if having else "",
    ]
    return " ".join(part for part in parts if part)


def _duration(seconds: int) -> str:
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds % size == 0:
            return f"{seconds // size} {unit}{'s' if seconds > size else ''}"
    return f"{seconds} second{'s' if seconds > 1 else ''}"


def _popular(rng: np.random.Generator, kinds: int, rows: int) -> np.ndarray:
    """Indices with the skew of a market: the k-th kind about 1/√k as often as the first."""
    weights = 1.0 / np.sqrt(np.arange(1, kinds + 1))
    edges = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(edges, rng.random(rows)), kinds - 1)


def _lots(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Sizes: lognormal around 120, a quarter of them round hundreds."""
    sizes = np.clip(np.exp(rng.normal(4.8, 1.1, rows)), 1, 20_000).astype(np.int32)
    lots: np.ndarray = np.where(rng.random(rows) < 0.25, (sizes // 100 + 1) * 100, sizes).astype(
        np.int32
    )
    return lots


def _words(words: tuple[str, ...], index: np.ndarray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(index.astype(np.int32), pa.array(words)).cast(pa.string())
