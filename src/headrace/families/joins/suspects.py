"""Which queries make the shared job of a round fail: its joints are halved (`runtime/halving.py`),
and the queries of one that fails go together, as they are looked up by the same expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.families.joins.plan import Joint
from headrace.families.joins.turns import Tasks, Turn, Turns
from headrace.runtime.family import Round
from headrace.runtime.faults import is_nobodys, why_failing
from headrace.runtime.halving import failing_alone, failing_together


def take_or_blame(
    turns: Turns, tasks: Tasks, round: Round, queries: Mapping[Joint, Sequence[int]], tries_max: int
) -> tuple[Turn | None, dict[int, str]]:
    """What the round has done; or the queries it fails for, with the reason."""
    try:
        return turns.take(tasks, round), {}
    except Exception as error:
        if is_nobodys(error):
            raise
        turns.take(tasks, round, only=())  # raises what has nothing to do with any query

    def failing(joints: Sequence[Joint]) -> str | None:
        return why_failing(lambda: turns.take(tasks, round, only=joints))

    joints = list(queries)
    reason = failing(joints)
    if reason is None:
        return turns.take(tasks, round), {}  # it was not theirs, and has passed
    found = failing_alone(joints, reason, failing, tries_max) or failing_together(
        joints, reason, failing, tries_max
    )
    if not found:
        return turns.take(tasks, round), {}  # the same: nothing fails any more
    turns.take(tasks, round, only=())  # a disk that is full by now would have each of them fail
    return None, {query_id: why for joint, why in found.items() for query_id in queries[joint]}
