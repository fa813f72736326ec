"""Which windows are in shards, and by which keys: decided by counts.  Pure.

A shard holds the groups whose keys hash to its number, so a query can be in shards only if its
GROUP BY has all those keys, as bare columns that equal values of are equal to the bit.  Queries that
keep sketches stay with the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.families.windows.plan import Share, Slot
from headrace.sql.tree import Column

KEY_TYPES = frozenset(
    ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "decimal")
)
GROUPS_A_SHARD_MIN = 16  # fewer values of a key would leave shards without any


@dataclass(frozen=True, slots=True)
class Sharding:
    """Groups are told apart by the hash of these columns, into so many shards; what was decided
    once stays so, whatever the settings are later.

    `begins_us`: windows that start earlier the driver answers, of queries up to `last_id`; None:
    none.  `covers_us`: rows from this time on are in the shards' log; None: all."""

    keys: tuple[str, ...]
    count: int
    why: str
    begins_us: int | None = None
    last_id: int = 0
    covers_us: int | None = None

    def is_handed_over(self, query_id: int, share: Share, watermark_us: int | None) -> bool:
        """Whether the driver has windows of a sharded query to answer yet."""
        if self.begins_us is None or query_id > self.last_id:
            return False
        return watermark_us is None or watermark_us < self.begins_us + share.window.range_us


@dataclass(frozen=True, slots=True)
class Load:
    """What the driver holds for one group-by: so many groups, so many bytes; 0 if nobody has
    counted yet."""

    groups: int = 0
    nbytes: int = 0


NO_LOAD = Load()


def columns_keyed(slot: Slot) -> frozenset[str]:
    """The bare columns that may tell shards apart, of those that are grouped by."""
    return frozenset(
        k.name for k in slot.keys if isinstance(k, Column) and k.type.name in KEY_TYPES
    )


def is_sharded(share: Share, keys: Iterable[str]) -> bool:
    """Whether the query is in shards that are told apart by these columns."""
    return not share.has_sketches and columns_keyed(share.slot) >= frozenset(keys)


def choose(
    shares: Iterable[Share], loads: Mapping[frozenset[str], Load], count: int, why: str
) -> Sharding | None:
    """The keys by which most is taken off the driver; None where no query can be in shards.

    `loads`: by what is grouped by."""
    asked: dict[frozenset[str], int] = {}
    for share in shares:
        keyed = columns_keyed(share.slot)
        if keyed and not share.has_sketches:
            asked[keyed] = asked.get(keyed, 0) + 1
    fits: list[frozenset[str]] = [
        keys for keys in asked if _spreads(loads.get(keys, NO_LOAD), count)
    ]
    if not fits:
        return None

    def taken(keys: frozenset[str]) -> tuple[int, int, int, list[str]]:
        covered = [own for own in asked if own >= keys]
        held = sum(loads.get(own, NO_LOAD).nbytes for own in covered)
        queries = sum(asked[own] for own in covered)
        return -held, -queries, len(keys), sorted(keys)

    best = min((taken(keys), keys) for keys in fits)[1]
    return Sharding(tuple(sorted(best)), count, why)


def _spreads(load: Load, count: int) -> bool:
    return not load.groups or load.groups >= GROUPS_A_SHARD_MIN * count
