"""Which query made the shared aggregate fail.

Whatever the failure (an error of a row's value, an expression that Spark does not take, a pattern
that Java does not compile, a stack or a memory that is not enough), it is looked for in the same
way: the aggregate is run again for half of the queries, and so on (`runtime/halving.py`).  A value
is looked for among the expressions that may fail on a value first: they are few, and many queries
may have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.families.windows.cuts import Cuts, plan_cuts
from headrace.families.windows.plan import RingAssignment, Share
from headrace.runtime.faults import is_value_fault
from headrace.runtime.halving import failing_alone, failing_together
from headrace.sql.bands import conjuncts
from headrace.sql.emit import emit
from headrace.sql.functions import may_raise
from headrace.sql.tree import Expr

Evaluating = Callable[[Sequence[str]], str | None]
"""Why evaluating these expressions on the round's rows fails; None if it does not."""
Aggregating = Callable[[Cuts], str | None]
"""Why this aggregate of the round's rows fails."""


def find_by_value(
    error: BaseException, shares: Mapping[int, Share], evaluating: Evaluating, tries_max: int
) -> dict[int, str]:
    """Query id → reason, for every query with an expression that fails on a row's value."""
    users = _users(shares) if is_value_fault(error) else {}
    texts = list(users)
    reason = evaluating(texts) if texts else None
    found = {} if reason is None else failing_alone(texts, reason, evaluating, tries_max)
    return {query_id: why for text, why in found.items() for query_id in users[text]}


def _users(shares: Mapping[int, Share]) -> dict[str, list[int]]:
    """Expressions that can fail on a row, and the queries that use them."""
    users: dict[Expr, list[int]] = {}
    for query_id, share in shares.items():
        exprs = [share.slot.where, *share.slot.keys, *(m.arg for m in share.measures)]
        for expr in dict.fromkeys(e for e in exprs if e is not None and may_raise(e)):
            users.setdefault(expr, []).append(query_id)
    return {emit(expr): ids for expr, ids in users.items()}


class QuerySearch:
    """Looks among queries: the aggregate is run for some of them, grouped as it is for all."""

    def __init__(
        self, shares: Mapping[int, Share], united: bool, aggregating: Aggregating, tries_max: int
    ) -> None:
        self._shares = shares
        self._united = united
        self._aggregating = aggregating
        self._tries_max = tries_max

    def failing(self, ids: Sequence[int]) -> str | None:
        assignment = RingAssignment()
        for query_id in ids:
            assignment.add(query_id, self._shares[query_id])
        return self._aggregating(plan_cuts(assignment.rings.values(), self._united))

    def alone(self, reason: str) -> dict[int, str]:
        """Queries for which the aggregate fails without the others; query id → reason."""
        return failing_alone(self._ids(), reason, self.failing, self._tries_max)

    def together(self, reason: str) -> dict[int, str]:
        """Queries without which it does not fail for the others."""
        return failing_together(self._ids(), reason, self.failing, self._tries_max)

    def _ids(self) -> list[int]:
        """The newest first: those that have been there for longer have not failed in earlier
        rounds."""
        return sorted(self._shares, reverse=True)


def users_of(fact: Expr, shares: Mapping[int, Share]) -> list[int]:
    """The queries that have this among their keys, or as their predicate or a part of it."""
    parts = set(conjuncts(fact))
    return [
        query_id
        for query_id, share in shares.items()
        if fact in share.slot.keys
        or (share.slot.where is not None and parts <= set(conjuncts(share.slot.where)))
    ]
