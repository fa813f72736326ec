"""Whose fault it is that the aggregate of a round fails: the queries that cannot be run with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headrace.families.windows.aggregation.suspects import (
    Evaluating,
    QuerySearch,
    find_by_value,
)
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.plan import Share
from headrace.quoting import quote_name
from headrace.runtime.census import count_rows
from headrace.runtime.family import OK, Batch
from headrace.runtime.faults import is_nobodys, why_failing

TRIES_MAX = 2  # of a round that fails, and does not when it is looked for why


class Aggregated(Protocol):
    """What is aggregated, and for whom."""

    def shares(self) -> Mapping[int, Share]: ...

    def cut_apart(self) -> bool:
        """Group by each on its own from now on; false where that is done, or cannot be."""


class Blaming:
    """Looks for the queries for which the aggregate of a stream fails.  `collect` runs it for these
    cuts."""

    def __init__(
        self, plan: Aggregated, tries_max: int, collect: Callable[[Batch, Cuts], object]
    ) -> None:
        self._plan = plan
        self._tries_max = tries_max
        self._collect = collect
        self._failures = 0

    def passed(self) -> None:
        """A round did not fail."""
        self._failures = 0

    def find(self, batch: Batch, cuts: Cuts, error: Exception) -> dict[int, str]:
        """The queries for which the aggregate fails; none, if it can be run again as it is now
        planned."""
        if is_nobodys(error):
            raise error
        check_without_queries(batch)
        shares = self._plan.shares()
        found = find_by_value(error, shares, _evaluating(batch), self._tries_max)
        if not found:

            def aggregating(own: Cuts) -> str | None:
                return why_failing(lambda: self._collect(batch, own))

            search = QuerySearch(shares, len(cuts.cuts) <= 1, aggregating, self._tries_max)
            found = self._find_among(search, list(shares), error)
        if found:
            # a disk that is full by now would have each of them fail
            check_without_queries(batch)
        return found

    def _find_among(self, search: QuerySearch, ids: list[int], error: Exception) -> dict[int, str]:
        reason = search.failing(ids)
        if reason is None:
            self._failures += 1
            if self._failures > TRIES_MAX:
                raise error
            return {}
        found = search.alone(reason)
        if found or self._plan.cut_apart():
            return found
        return search.together(reason)


def check_without_queries(batch: Batch) -> None:
    """Raises what has nothing to do with any query: the source, the disk, Spark itself."""
    columns = [quote_name(f.name) for f in batch.relation.fields]
    batch.frame.select(*columns).write.format("noop").mode("overwrite").save()
    count_rows(batch)


def _evaluating(batch: Batch) -> Evaluating:
    """Why evaluating expressions on the round's rows fails."""

    def evaluating(texts: Sequence[str]) -> str | None:
        columns = [
            f"IF(({batch.kind()}) = {OK}, {text}, NULL) AS c{i}" for i, text in enumerate(texts)
        ]
        return why_failing(
            lambda: batch.frame.selectExpr(*columns).write.format("noop").mode("overwrite").save()
        )

    return evaluating
