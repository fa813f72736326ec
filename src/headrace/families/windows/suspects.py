"""Which query made the shared aggregate fail: halve the suspects until each is alone.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.families.windows.plan import Share
from headrace.sql.emit import emit
from headrace.sql.functions import may_raise
from headrace.sql.tree import Expr

Probe = Callable[[Sequence[str]], str | None]


@dataclass(frozen=True, slots=True)
class Suspect:
    """An expression that can fail on a row, and the queries that use it."""

    text: str
    ids: tuple[int, ...]


def suspects_of(shares: Mapping[int, Share]) -> list[Suspect]:
    users: dict[Expr, list[int]] = {}
    for query_id, share in shares.items():
        exprs = [share.slot.where, *share.slot.keys, *(m.arg for m in share.measures)]
        for expr in dict.fromkeys(e for e in exprs if e is not None and may_raise(e)):
            users.setdefault(expr, []).append(query_id)
    return [Suspect(emit(expr), tuple(ids)) for expr, ids in users.items()]


def find_faults(suspects: Sequence[Suspect], probe: Probe, probes_max: int) -> dict[int, str]:
    """Query id → reason, for every query with an expression that fails.

    Past `probes_max` evaluations what is left together is blamed together: the round must go on."""
    faults: dict[int, str] = {}
    pending = [list(suspects)] if suspects else []
    probes = 0
    while pending:
        group = pending.pop()
        probes += 1
        reason = probe([s.text for s in group])
        if reason is None:
            continue
        if len(group) == 1 or probes >= probes_max:
            faults.update((query_id, reason) for s in group for query_id in s.ids)
        else:
            half = len(group) // 2
            pending += [group[:half], group[half:]]
    return faults
