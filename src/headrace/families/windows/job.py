"""A round of the windows family: one Spark aggregate, then array operations on the driver.

Spark leaves panes × groups × signatures; rings take them in, close what the watermark has passed,
and every window that ends there is answered by one join (`ring.py`).  Each expression of SELECT and HAVING
runs once over the answers of all queries that have it (`answering.py`), whatever rings they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.errors import RoundError
from headrace.families.windows.aggregate import NEWEST, PANE, SET, aggregate_sql, fact_sql, key_name
from headrace.families.windows.answering import Answering
from headrace.families.windows.cells import Edges, declare_sql, drop_sql
from headrace.families.windows.columns import KIND, ROWS_PART, part_names
from headrace.families.windows.dearest import dearest, dearest_sketch
from headrace.families.windows.gauge import Gauge
from headrace.families.windows.groups import Evaluate
from headrace.families.windows.plan import Cuts
from headrace.families.windows.rings import Rings
from headrace.families.windows.rows import place_rows, rows_sql
from headrace.families.windows.sending import Sending
from headrace.families.windows.sketches.groves import limits_of
from headrace.families.windows.suspects import find_faults, suspects_of
from headrace.runtime.answers import Pieces
from headrace.runtime.family import BAD, LATE, NO_TIME, OK, Batch, Change, Outcome, Place, Reading, Round
from headrace.runtime.faults import is_value_fault, reason_of
from headrace.runtime.statistics import Census, Stopwatch
from headrace.sql.tree import Column, Expr, columns_of

VIEW = "headrace_batch"
AT = "at"


class WindowsFamily:
    name = "windows"

    def open(self, place: Place) -> WindowsWork:
        return WindowsWork(place)


class WindowsWork:
    """The shared windows of one stream."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._rings = Rings(place.disk, place.ledger, place.config)
        self._answering = Answering()
        self._gauge = Gauge()
        self._declared: Edges = ()
        self._sending = Sending(place.config.cut_rows_max // 2)

    def replan(self, change: Change) -> None:
        self._rings.seat(list(change.queries.values()), self._place.relation)

    def read(self, batch: Batch, round: Round, watch: Stopwatch) -> Reading:
        cuts = self._rings.cuts()
        as_rows = self._sending.sends_rows(cuts, batch.is_small)
        with watch.stage("spark"):
            try:
                table = self._collect(batch, cuts, as_rows)
            except PySparkException as error:
                if not is_value_fault(error):
                    raise
                return Reading(_nothing, faults=self._find_faults(batch, error))
        if as_rows:
            self._sending.note(table.num_rows, table.num_rows, as_rows)
        if table.num_rows > self._place.config.cut_rows_max:
            if as_rows or self._rings.cut_apart():
                return self.read(batch, round, watch)
            faults = dearest(cuts, table, self._rings.shares(), self._place.config.cut_rows_max)
            return Reading(_nothing, faults=faults)
        faults = dearest_sketch(cuts, table, self._rings.shares(), self._place.config.sketch_bytes_max)
        if faults:
            return Reading(_nothing, faults=faults)
        census, panes = _census(table)
        if not as_rows:
            self._sending.note(census.rows, panes.num_rows, as_rows)
            self._rings.note_cells(census.rows, panes.num_rows)
        return Reading(partial(self._answer, cuts, panes, _evaluate(batch.frame.sparkSession)), census)

    def _answer(self, cuts: Cuts, panes: pa.Table, evaluate: Evaluate, round: Round, watch: Stopwatch) -> Outcome:
        outcome = Outcome()
        with watch.stage("roll"):
            mark = self._rings.take(cuts, panes, round, evaluate)
            outcome.selectivity = self._rings.selectivity
            outcome.groupings, outcome.ring_bytes = len(cuts.cuts), self._rings.nbytes
        with watch.stage("answer"):
            pieces = Pieces(self._place.disk, self._place.folder, round.id)
            for closed in self._rings.close(round.watermark_us):
                outcome.faults.update(self._rings.barred)
                for blocks, answers in self._answering.finish(closed, self._rings.keys, outcome.faults):
                    pieces.add(blocks)
                    outcome.answers += answers
            outcome.blocks = pieces.last
            self._rings.barred = {}
        outcome.files += [*pieces.marks, mark]
        outcome.keep["panes"] = self._rings.prune(round.watermark_us)
        log = self._rings.log
        outcome.held, outcome.log_bytes, outcome.log_files = log.held, log.nbytes, len(log.rounds)
        outcome.load = self._gauge.load(cuts, self._rings.plans(), self._rings.keys, panes.num_rows, round)
        outcome.unshared_s = self._rings.unshared_s(round.census.rows, watch.seconds["spark"])
        return outcome

    def _collect(self, batch: Batch, cuts: Cuts, as_rows: bool) -> pa.Table:
        """Run the aggregate: one SQL text, so that building it costs Spark one parse."""
        frame = batch.frame.coalesce(1) if batch.is_small else batch.frame
        frame.createOrReplaceTempView(VIEW)
        session, relation, kind = frame.sparkSession, batch.relation, batch.kind()
        if as_rows:
            return place_rows(cuts, relation, session.sql(rows_sql(cuts, relation, kind, VIEW)).toArrow())
        self._declare(session, cuts.edges)
        return session.sql(aggregate_sql(cuts, relation, kind, VIEW, limits_of(self._place.config))).toArrow()

    def _declare(self, session: SparkSession, edges: Edges) -> None:
        """Edges of cells are variables of the session."""
        for key, old in self._declared:
            if (key, old) not in edges:
                session.sql(drop_sql(key, old))
        for key, new in edges:
            if (key, new) not in self._declared:
                session.sql(declare_sql(key, new))
        self._declared = edges

    def done(self) -> None:
        """Nothing waits for it."""

    def rest(self) -> None:
        self._rings.rest()

    def _find_faults(self, batch: Batch, error: PySparkException) -> dict[int, str]:
        """The queries whose expressions fail on a row of the round."""
        suspects = suspects_of(self._rings.shares())
        faults = find_faults(suspects, _probe(batch), self._place.config.quarantine_probes_max)
        if not faults:
            raise RoundError("a row makes the shared aggregate fail, and no single query is the cause",
                             value=reason_of(error))
        return faults


def _nothing(round: Round, watch: Stopwatch) -> Outcome:
    return Outcome()


def _census(table: pa.Table) -> tuple[Census, pa.Table]:
    """Count rows by kind (in the first cut: each cut has all rows), and keep the panes."""
    each = table.filter(pc.equal(table.column(SET), 0)) if SET in table.column_names else table
    kinds = each.column(KIND).to_numpy()
    counts = np.bincount(kinds, each.column(part_names(())[ROWS_PART]).to_numpy(), BAD + 1).astype(np.int64)
    newest = pc.max(each.filter(pa.array(kinds <= LATE)).column(NEWEST)).as_py()
    census = Census(int(counts.sum()), int(counts[LATE]), int(counts[NO_TIME]), int(counts[BAD]), newest)
    if PANE not in table.column_names:
        table = table.slice(0, 0)
    elif counts[OK] < counts.sum():
        table = table.filter(pc.equal(table.column(KIND), OK))
    return census, table.drop_columns([KIND, NEWEST])


def _evaluate(session: SparkSession) -> Evaluate:
    """Facts of keys, by Spark: a small job, run when there are keys it has not been asked of."""

    def evaluate(keys: Sequence[Expr], values: Sequence[pa.Array], facts: Sequence[Expr]) -> list[pa.Array]:
        used = {i: k for i, k in enumerate(keys) if isinstance(k, Column) and k.name in columns_of(*facts)}
        rows = len(values[0]) if values else 1
        table = pa.table({AT: pa.array(range(rows), pa.int64()), **{key_name(i): values[i] for i in used}})
        ddl = ", ".join([f"{AT} BIGINT", *(f"{key_name(i)} {k.type}" for i, k in used.items())])
        names = {k.name: key_name(i) for i, k in used.items()}
        texts = [f"{fact_sql(fact, names)} AS f{i}" for i, fact in enumerate(facts)]
        found = session.createDataFrame(table, ddl).selectExpr(AT, *texts).toArrow().sort_by(AT)
        return [found.column(f"f{i}").combine_chunks() for i in range(len(facts))]

    return evaluate


def _probe(batch: Batch) -> Callable[[Sequence[str]], str | None]:
    """Whether evaluating these expressions on the round's rows fails, and with what."""

    def probe(texts: Sequence[str]) -> str | None:
        columns = [f"IF(({batch.kind()}) = {OK}, {text}, NULL) AS c{i}" for i, text in enumerate(texts)]
        try:
            batch.frame.selectExpr(*columns).write.format("noop").mode("overwrite").save()
        except PySparkException as error:
            if not is_value_fault(error):
                raise
            return reason_of(error)
        return None

    return probe
