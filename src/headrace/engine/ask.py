"""Asking: answers, EXPLAIN, costs and statistics.  Never needs Spark to run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.arguments import (
    check_limit,
    check_optional,
    check_round,
    check_texts,
)
from headrace.catalog.catalog import Registered
from headrace.families.contract import Archive, Reader
from headrace.families.registry import family_of
from headrace.pausing import collector_paused
from headrace.reading import Answer, QueryInfo, page_of, watch_answers
from headrace.runtime.answers import AnswerLog
from headrace.runtime.ledger import Ledger
from headrace.runtime.statistics import RoundStats
from headrace.runtime.waking import HomeSignal
from headrace.showing import Listing

if TYPE_CHECKING:
    from headrace.cost_attribution import StreamCost
    from headrace.describing import QueryDescription
    from headrace.families.joins.reading.notices import Notice


from headrace.engine.state import EngineState


class Asking(EngineState):
    """The part of an engine that is asked."""

    def results(self, query: str, after: int | None = None, limit: int | None = None) -> pa.Table:
        """The log of a query: all committed answers in their order, with the columns of its SELECT
        (+ window_start, window_end).  Where answers may be taken back a last column, `change`, is
        +1 for one that comes and −1 for one that goes; `read` has what is left.

        With `after` (the seq of an answer) or `limit`, a page of its log: `headrace.last_seq(page)`
        is `after` of the next one."""
        registered = self._registered(query)
        reader = self._reader_of(registered)
        if after is not None or limit is not None:
            wanted = None if limit is None else check_limit(limit)
            return page_of(
                registered, reader.log(registered), after, wanted, reader.empty(registered)
            )
        return reader.results(registered)

    def read(self, query: str) -> pa.Table:
        """The present answer of a query: Spark's answer to its text over the rows committed so far.

        Of windows those that are closed.  Late rows count as they do in `results`: not in windows
        and other aggregates.  A query that came later begins with what was kept for it."""
        registered = self._registered(query)
        return self._reader_of(registered).present(registered)

    def watch(
        self,
        query: str,
        since: int | None = None,
        follow: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[Answer]:
        """Answers as they are committed, each a dict with a `.seq` to resume after (`since`); at
        most `limit` of them.

        `follow`: wait for more; by default as long as this engine is running."""
        registered = self._registered(query)

        def goes_on() -> bool:
            return self._pipelines.is_running if follow is None else follow

        rounds = [
            self.home.root / self._ledger(name).folder / "rounds"
            for name in registered.query.relations
        ]
        waking = HomeSignal(self._pipelines.signal, lambda: self._pipelines.is_running, rounds)
        log = partial(self._reader_of(registered).log, registered)
        answers = watch_answers(registered, log, since, goes_on, waking)
        return answers if limit is None else islice(answers, check_limit(limit))

    def notices(self, stream: str, after: int = -1) -> Iterator[Notice]:
        """Whom the rows of committed rounds of a stream or table affect, by joins and filters,
        round by round after `after`: compact records, to be shared by whoever delivers."""
        from headrace.families.joins.reading.notices import Notices

        check_texts(stream=stream)
        check_round(after)
        self._refresh()
        relation = self.catalog.relation(stream)
        return Notices(self.home.disk.root, self._ledger(relation.name)).after(after)

    def explain(self, query: str | None = None) -> str:
        """How one query runs, or the whole shared plan, with costs."""
        from headrace.explaining import explain_all, explain_one
        from headrace.forecast import recent_stats

        check_optional(query=query)
        self._refresh()
        rounds = {name: recent_stats(ledger) for name, (ledger, _) in self._all_logs().items()}
        if query is not None:
            return explain_one(self.catalog.query(query), self.catalog, rounds, self._plans)
        return explain_all(self.catalog, rounds, self._plans)

    def describe(self, query: str) -> QueryDescription:
        """Everything about one query: its text, who runs it and why, its columns, its cost, its
        newest answer."""
        from headrace.describing import describe

        registered = self._registered(query)
        costs = {q.name: q.seconds for stream in self.costs() for q in stream.queries if q.is_live}
        return describe(
            registered, self._plans, self._reader_of(registered), costs.get(registered.name)
        )

    def queries(self) -> Listing[QueryInfo]:
        """Every live query: where it runs, how, and how many answers it has given (None: they are
        made on reading)."""
        from headrace.explaining import infos

        self._refresh()
        counts = {name: log.counts() for name, (_, log) in self._all_logs().items()}
        return Listing(infos(self.catalog, self._plans, counts))

    def costs(self) -> Listing[StreamCost]:
        """What a round of each stream takes, split among its queries; from committed rounds,
        without Spark."""
        from headrace.cost_attribution import stream_cost

        self._refresh()
        logs = self._all_logs()
        with collector_paused():  # what is made for each of thousands of queries is no cycle
            found = [
                stream_cost(r, self.catalog, *logs[name])
                for name, r in self.catalog.relations.items()
            ]
        return Listing(cost for cost in found if cost is not None)

    def statistics(self, stream: str | None = None) -> Listing[RoundStats]:
        """Recent rounds, oldest first: of this engine, or, where another process runs the home,
        those it committed."""
        at_work = list(self._pipelines.by_name.items())
        if at_work:
            return Listing(
                s for name, p in at_work if stream in (None, name) for s in list(p.recent)
            )
        from headrace.forecast import committed_stats

        self._refresh()
        ledgers = {name: ledger for name, (ledger, _) in self._all_logs().items()}
        return Listing(
            s
            for name, own in ledgers.items()
            if stream in (None, name)
            for s in committed_stats(own)
        )

    def _reader_of(self, registered: Registered) -> Reader:
        family = family_of(registered, self.catalog.relation)
        if family.name not in self._readers:
            archive = Archive(
                self.home.disk,
                self.config,
                self.catalog.relation,
                self._ledger,
                self._answers,
                lambda: self._spark.session,
            )
            # readers may be several threads
            self._readers.setdefault(family.name, family.reader(archive))
        return self._readers[family.name]

    def _all_logs(self) -> dict[str, tuple[Ledger, AnswerLog]]:
        for name in self.catalog.relations:
            self._answers(name)
        return self._logs

    def _registered(self, query: str) -> Registered:
        check_texts(query=query)
        self._refresh()
        return self.catalog.query(query)
