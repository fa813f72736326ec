"""A round of the windows family: one Spark aggregate, then array operations on the driver.

Spark leaves panes × groups × signatures; rings take them in, close what the watermark has passed,
and every window that ends there is answered by one join (`rings/ring.py`).  Each expression of
SELECT and HAVING runs once over the answers of all queries that have it (`rings/answering.py`),
whatever rings they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from headrace.errors import RoundError
from headrace.families.windows.aggregation.aggregate import (
    NEWEST,
    SET,
    aggregate_sql,
)
from headrace.families.windows.aggregation.columns import KIND, ROWS_PART, part_names
from headrace.families.windows.aggregation.cutting import UNTRIED, ChoiceState
from headrace.families.windows.aggregation.eviction import evicted_by_groups, evicted_by_sketches
from headrace.families.windows.aggregation.rows import place_rows, rows_sql
from headrace.families.windows.aggregation.sending import (
    LOOK_ROUNDS,
    NOTHING_KNOWN,
    Sending,
    SendingState,
)
from headrace.families.windows.aggregation.suspects import (
    Evaluating,
    QuerySearch,
    find_by_value,
)
from headrace.families.windows.cells import Edges, declare_sql, drop_sql
from headrace.families.windows.costs.load_meter import LoadMeter
from headrace.families.windows.cuts import Cuts
from headrace.families.windows.facts import Facts
from headrace.families.windows.figures import NAME, WindowsFigures, figures_of
from headrace.families.windows.rings.answering import Answering
from headrace.families.windows.rings.rings import Rings
from headrace.families.windows.sketches.arriving import arrive, came_whole
from headrace.families.windows.sketches.bias import Bias
from headrace.families.windows.sketches.kinds import Limits
from headrace.families.windows.sketches.sketch_stores import limits_of
from headrace.quoting import quote_name
from headrace.records import encode
from headrace.runtime.answers import Pieces
from headrace.runtime.census import count_rows
from headrace.runtime.collecting import to_arrow
from headrace.runtime.family import (
    BAD,
    LATE,
    NO_TIME,
    OK,
    Batch,
    Change,
    Outcome,
    Place,
    Reading,
    Round,
)
from headrace.runtime.faults import is_nobodys, why_failing
from headrace.runtime.hll_tables import hll_tables
from headrace.runtime.statistics import Census, Stopwatch
from headrace.sql.tree import Expr

VIEW = "headrace_batch"
TRIES_MAX = 2  # of a round that fails, and does not when it is looked for why


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the rounds so far have decided of how the next is read; committed with each."""

    cutting: ChoiceState = UNTRIED
    sending: SendingState = NOTHING_KNOWN


class WindowsJob:
    name = NAME
    folders = ("panes", "folded")

    def open(self, place: Place) -> WindowsWork:
        return WindowsWork(place)


class WindowsWork:
    """The shared windows of one stream."""

    def __init__(self, place: Place) -> None:
        self._place = place
        chosen = place.ledger.chosen(WindowsJob.name, Chosen)
        newest = place.ledger.newest
        told = {} if newest is None else place.ledger.stats(newest)
        exceptions = figures_of(told).exceptions
        self._rings = Rings(place.disk, place.ledger, place.config, chosen.cutting, exceptions)
        self._answering = Answering()
        self._load_meter = LoadMeter()
        self._declared: list[tuple[Expr, tuple[int, ...]]] = []
        self._failures = self._grouped_rounds = 0
        self._sending = Sending(place.config.cut_rows_max // 2, chosen.sending)

    @property
    def reads_rows(self) -> bool:
        return bool(self._rings.shares())

    @property
    def counts_rows(self) -> bool:
        """Its aggregate goes through all rows, those that do not count among them."""
        return self.reads_rows

    def replan(self, change: Change) -> None:
        self._rings.assign(list(change.queries.values()), self._place.relation)

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        if not self.reads_rows:
            return Reading(self._pass)
        cuts = self._rings.cutting.cuts()
        as_rows = self._sending.sends_rows(cuts, batch.is_small)
        faults = self._learn_bias(cuts, batch.frame.sparkSession)
        if faults:
            return Reading(_nothing, faults=faults)
        limits = self._limits(batch, as_rows)
        with watch.stage("spark"):
            table, faults = self._collect_or_blame(batch, cuts, limits, as_rows)
        if table is None:
            return Reading(_nothing, faults=faults) if faults else self.read(batch, round, watch)
        if limits.is_small and not came_whole(
            table, cuts.measures, limits, self._place.config.sketch_bytes_max
        ):
            self._grouped_rounds = LOOK_ROUNDS
            return self.read(batch, round, watch)
        if as_rows:
            self._sending.note(table.num_rows, table.num_rows, as_rows)
        if table.num_rows > self._place.config.cut_rows_max:
            if as_rows or self._rings.cutting.cut_apart():
                return self.read(batch, round, watch)
            faults = evicted_by_groups(
                cuts, table, self._rings.shares(), self._place.config.cut_rows_max
            )
            return Reading(_nothing, faults=faults)
        faults = evicted_by_sketches(
            cuts, table, limits, self._rings.shares(), self._place.config.sketch_bytes_max
        )
        if faults:
            return Reading(_nothing, faults=faults)
        census, panes = _census(table)
        if not as_rows:
            self._sending.note(census.rows, panes.num_rows, as_rows)
            self._rings.cutting.note(census.rows, panes.num_rows)
        self._failures = 0
        facts = Facts(batch.frame.sparkSession, self._place.config.quarantine_probes_max)
        self._grouped_rounds -= self._grouped_rounds > 0
        return Reading(partial(self._answer, cuts, panes, limits, facts, self._chosen()), census)

    def _limits(self, batch: Batch, as_rows: bool) -> Limits:
        """A small round sends values as they come, unless one before had too many of them."""
        as_they_come = batch.is_small and not as_rows and not self._grouped_rounds
        return replace(limits_of(self._place.config), is_small=as_they_come)

    def _learn_bias(self, cuts: Cuts, session: SparkSession) -> dict[int, str]:
        """The tables that registers of these sizes are read with, before the first answer asks for
        them; or the queries that ask for registers, where this Spark does not show its tables."""
        for precision in {
            m.params[0] for m in cuts.measures if m.kind == "hll"
        } - self._rings.bias.keys():
            try:
                threshold, raw, bias = hll_tables(session, precision)
            except RoundError as error:
                shares = self._rings.shares()
                return {
                    i: error.what
                    for i, own in shares.items()
                    if any(m.kind == "hll" for m in own.measures)
                }
            self._rings.bias[precision] = Bias(threshold, np.array(raw), np.array(bias))
        return {}

    def _chosen(self) -> Chosen:
        """What the next round is read by: taken when this one has been read, as the next may be
        read before this one is committed."""
        return Chosen(self._rings.cutting.state, self._sending.state)

    def _answer(
        self,
        cuts: Cuts,
        panes: pa.Table,
        limits: Limits,
        facts: Facts,
        chosen: Chosen,
        round: Round,
        watch: Stopwatch,
    ) -> Outcome:
        outcome = Outcome()
        with watch.stage("roll"):
            if limits.is_small:
                panes = arrive(panes, cuts.measures, limits)
            mark = self._rings.take(cuts, panes, round, facts.evaluate)
            if facts.failed:
                outcome.faults.update(facts.faults(self._rings.shares()))
                # what was put in place of their values is not known of any key
                self._rings.keys.cuts.clear()
        with watch.stage("answer"):
            pieces = Pieces(self._place.disk, self._place.folder, round.id)
            for closed in self._rings.close(round.watermark_us):
                outcome.faults.update(self._rings.barred)
                for blocks, answers in self._answering.finish(
                    closed, self._rings.keys, outcome.faults
                ):
                    pieces.add(blocks)
                    outcome.answers += answers
            outcome.blocks = pieces.last
            self._rings.barred.clear()
        outcome.files += [*pieces.marks, mark]
        outcome.keep["panes"] = self._rings.prune(round.watermark_us)
        figures, outcome.priced = self._load_meter.note(
            cuts, self._rings.plans(), self._rings.keys, panes.num_rows, round
        )
        unshared_s = self._rings.unshared_s(round.census.rows, watch.seconds["spark"])
        self._measure(replace(figures, unshared_s=unshared_s), chosen, outcome)
        return outcome

    def _measure(self, figures: WindowsFigures, chosen: Chosen, outcome: Outcome) -> None:
        log = self._rings.log
        outcome.choices[NAME] = asdict(chosen)
        outcome.held = log.held
        outcome.figures[NAME] = encode(
            replace(
                figures,
                exceptions=self._rings.exceptions,
                next_united=chosen.cutting.united,
                selectivity=self._rings.selectivity,
                ring_bytes=self._rings.nbytes,
                log_bytes=log.nbytes,
                log_files=len(log.rounds),
            )
        )

    def _pass(self, round: Round, watch: Stopwatch) -> Outcome:
        """A round without a query: who comes later must know that its rows are not there.  A table
        has no windows."""
        if self._place.relation.is_table:
            return Outcome(keep={"panes": round.id + 1})
        outcome = Outcome()
        with watch.stage("roll"):
            outcome.files.append(self._rings.skip(round))
            outcome.keep["panes"] = self._rings.prune(round.watermark_us)
        self._measure(WindowsFigures(), self._chosen(), outcome)
        return outcome

    def _collect_or_blame(
        self, batch: Batch, cuts: Cuts, limits: Limits, as_rows: bool
    ) -> tuple[pa.Table | None, dict[int, str]]:
        """What the aggregate leaves; or the queries it fails for, none if it should be run
        again."""
        try:
            return self._collect(batch, cuts, limits, as_rows), {}
        except Exception as error:  # noqa: BLE001 - whatever Spark says, it may be one query's doing
            self._sending.group_next()
            return None, self._find_faults(batch, cuts, error)

    def _collect(self, batch: Batch, cuts: Cuts, limits: Limits, as_rows: bool) -> pa.Table:
        """Run the aggregate: one SQL text, so that building it costs Spark one parse."""
        frame = batch.frame.coalesce(1) if batch.is_small else batch.frame
        frame.createOrReplaceTempView(VIEW)
        session, relation, kind = frame.sparkSession, batch.relation, batch.kind()
        if as_rows:
            return place_rows(
                cuts, relation, to_arrow(session.sql(rows_sql(cuts, relation, kind, VIEW)))
            )
        self._declare(session, cuts.edges)
        return to_arrow(session.sql(aggregate_sql(cuts, relation, kind, VIEW, limits)))

    def _declare(self, session: SparkSession, edges: Edges) -> None:
        """Edges of cells are variables of the session; what is declared is known even if the next
        one fails."""
        for own in [own for own in self._declared if own not in edges]:
            session.sql(drop_sql(*own))
            self._declared.remove(own)
        for own in [own for own in edges if own not in self._declared]:
            session.sql(declare_sql(*own))
            self._declared.append(own)

    def done(self) -> None:
        """Nothing waits for it."""

    def rest(self) -> None:
        self._rings.rest()

    def _find_faults(self, batch: Batch, cuts: Cuts, error: Exception) -> dict[int, str]:
        """The queries for which the aggregate fails; none, if it can be run again as it is now
        planned."""
        if is_nobodys(error):
            raise error
        self._check_without_queries(batch)
        shares, tries_max = self._rings.shares(), self._place.config.quarantine_probes_max
        found = find_by_value(error, shares, _evaluating(batch), tries_max)
        if not found:
            search = QuerySearch(
                shares, len(cuts.cuts) <= 1, partial(self._aggregating, batch), tries_max
            )
            found = self._find_among(search, list(shares), error)
        if found:
            # a disk that is full by now would have each of them fail
            self._check_without_queries(batch)
        return found

    def _find_among(self, search: QuerySearch, ids: list[int], error: Exception) -> dict[int, str]:
        reason = search.failing(ids)
        if reason is None:
            self._failures += 1
            if self._failures > TRIES_MAX:
                raise error
            return {}
        found = search.alone(reason)
        if found or self._rings.cutting.cut_apart():
            return found
        return search.together(reason)

    def _check_without_queries(self, batch: Batch) -> None:
        """Raises what has nothing to do with any query: the source, the disk, Spark itself."""
        columns = [quote_name(f.name) for f in batch.relation.fields]
        batch.frame.select(*columns).write.format("noop").mode("overwrite").save()
        count_rows(batch)

    def _aggregating(self, batch: Batch, cuts: Cuts) -> str | None:
        limits = self._limits(batch, as_rows=False)
        return why_failing(lambda: self._collect(batch, cuts, limits, as_rows=False))


def _nothing(round: Round, watch: Stopwatch) -> Outcome:
    return Outcome()


def _census(table: pa.Table) -> tuple[Census, pa.Table]:
    """Count rows by kind (in the first cut: each cut has all rows), and keep the panes."""
    each = table.filter(pc.equal(table.column(SET), 0)) if SET in table.column_names else table
    kinds = each.column(KIND).to_numpy()
    counts = np.bincount(kinds, each.column(part_names(())[ROWS_PART]).to_numpy(), BAD + 1).astype(
        np.int64
    )
    newest = pc.max(each.filter(pa.array(kinds <= LATE)).column(NEWEST)).as_py()
    census = Census(
        int(counts.sum()), int(counts[LATE]), int(counts[NO_TIME]), int(counts[BAD]), newest
    )
    if counts[OK] < counts.sum():
        table = table.filter(pc.equal(table.column(KIND), OK))
    return census, table.drop_columns([KIND, NEWEST])


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
