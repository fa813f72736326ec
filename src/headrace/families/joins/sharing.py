"""What the joins and filters of a home share, for EXPLAIN and forecasts: kept up to date as they
come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.families.contract import Planned
from headrace.families.joins.cost import price_s
from headrace.families.joins.explain import (
    Asked,
    asked_of,
    event_s,
    explain_join_query,
    explain_joins,
)
from headrace.families.joins.level import sides_of
from headrace.families.joins.plan import Box, Joint, Share
from headrace.families.joins.residue import asked_of_spark
from headrace.runtime.statistics import Histories, newest_load, rows_expected
from headrace.values import Relation


class JoinsPlan:
    """The joints of all relations, and the ranges of their queries."""

    def __init__(self) -> None:
        self._queries: dict[int, Planned] = {}
        self._boxes: dict[Joint, dict[int, Sequence[Box]]] = {}
        self._asked: dict[Joint, Asked] = {}

    def update(self, come: Mapping[int, Planned], gone: Sequence[int]) -> None:
        for query_id in gone:
            self._forget(query_id, _share(self._queries.pop(query_id)).joint)
        for query_id, own in come.items():
            share = _share(own)
            self._boxes.setdefault(share.joint, {})[query_id] = share.boxes
            self._asked.pop(share.joint, None)
        self._queries.update(come)

    def catch_up(self) -> None:
        _ = self._joints

    def explain(self, relation: Relation, rounds: Histories) -> list[str]:
        return explain_joins(
            relation.name, self._joints, _kept(rounds), newest_load(rounds.get(relation.name, ()))
        )

    def explain_query(self, query_id: int, rounds: Histories) -> list[str]:
        query, share = self._queries[query_id].registered.query, _share(self._queries[query_id])
        load = newest_load(rounds.get(query.source, ()))
        return [
            f"standing {'filters' if query.joined is None else 'joins'}",
            *explain_join_query(
                query.source,
                share,
                self._joints,
                _kept(rounds),
                load,
                asked_of_spark(query, share.residue),
            ),
        ]

    def price(self, relation: Relation, rounds: Histories) -> dict[str, float]:
        history = rounds.get(relation.name, ())
        looked_s = event_s(relation.name, self._joints, _kept(rounds), newest_load(history))
        return {} if looked_s is None else {"joins": price_s(rows_expected(history), looked_s)}

    def reads_rows(self, relation: Relation) -> bool:
        return any(sides_of(joint, relation.name) for joint in self._boxes)

    @property
    def _joints(self) -> Mapping[Joint, Asked]:
        for joint, boxes in self._boxes.items():
            if joint not in self._asked:
                self._asked[joint] = asked_of(joint, boxes)
        return self._asked

    def _forget(self, query_id: int, joint: Joint) -> None:
        del self._boxes[joint][query_id]
        self._asked.pop(joint, None)
        if not self._boxes[joint]:
            del self._boxes[joint]


def _share(planned: Planned) -> Share:
    assert isinstance(planned.claim.asked, Share)
    return planned.claim.asked


def _kept(rounds: Histories) -> dict[str, int]:
    """Rows of each relation that may still be joined."""
    newest = {name: newest_load(history) for name, history in rounds.items()}
    return {name: load.kept_rows for name, load in newest.items() if load is not None}
