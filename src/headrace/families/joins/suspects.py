"""Which queries make the shared job of a round fail: its shapes are halved (`runtime/halving.py`),
and the queries of one that fails go together, as they are looked up by the same expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.families.joins.plan import JoinShape
from headrace.families.joins.round_runner import PendingRound, RoundRunner, Tasks
from headrace.runtime.family import Round
from headrace.runtime.faults import is_nobodys, why_failing
from headrace.runtime.halving import failing_alone, failing_together


def take_or_blame(
    runner: RoundRunner,
    tasks: Tasks,
    round: Round,
    queries: Mapping[JoinShape, Sequence[int]],
    tries_max: int,
) -> tuple[PendingRound | None, dict[int, str]]:
    """What the round has done; or the queries it fails for, with the reason."""
    try:
        return runner.take(tasks, round), {}
    except Exception as error:
        if is_nobodys(error):
            raise
        runner.take(tasks, round, only=())  # raises what has nothing to do with any query

    def failing(shapes: Sequence[JoinShape]) -> str | None:
        return why_failing(lambda: runner.take(tasks, round, only=shapes))

    shapes = list(queries)
    reason = failing(shapes)
    if reason is None:
        return runner.take(tasks, round), {}  # it was not theirs, and has passed
    found = failing_alone(shapes, reason, failing, tries_max) or failing_together(
        shapes, reason, failing, tries_max
    )
    if not found:
        return runner.take(tasks, round), {}  # the same: nothing fails any more
    runner.take(tasks, round, only=())  # a disk that is full by now would have each of them fail
    return None, {query_id: why for shape, why in found.items() for query_id in queries[shape]}
