"""The one Spark aggregate of a round, as SQL text emitted from bound trees.

Rows are grouped by pane, the keys of a cut and the bits of its predicates; several cuts are the
grouping sets of the same aggregate, so the rows are read once.  Rows that do not count (late, no
time, bad) fall into groups of their own, by kind: the census of the round comes with the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.families.windows.measures import Measure
from headrace.families.windows.plan import SIGNATURE_BITS, Cuts
from headrace.sql.emit import emit
from headrace.sql.functions import may_raise
from headrace.sql.tree import Expr
from headrace.values import Relation

KIND, PANE, ROWS, NEWEST, SET = "kind", "pane", "census_rows", "newest", "cut"
LOW = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class AggregateText:
    """What to hand to Spark: whether a row counts, columns made of each row, grouping sets of them, aggregates."""

    kind: str
    columns: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    aggregates: tuple[str, ...]

    @property
    def group_columns(self) -> list[str]:
        return list(dict.fromkeys(c for s in self.sets for c in s))


def all_keys(cuts: Cuts) -> list[Expr]:
    return list(dict.fromkeys(k for cut in cuts.cuts for k in cut.keys))


def key_name(index: int) -> str:
    return f"k{index}"


def word_names(cuts: Cuts, cut: int) -> list[str]:
    """Signature columns of a cut; cuts with the same predicates share them."""
    same = next(i for i, c in enumerate(cuts.cuts) if c.predicates == cuts.cuts[cut].predicates)
    return [f"s{same}_{word}" for word in range(cuts.cuts[cut].words)]


def aggregate_text(cuts: Cuts, relation: Relation, kind: str) -> AggregateText:
    """The aggregate for these cuts; `kind` is the SQL that tells whether a row counts."""
    has_time = relation.time is not None
    columns = {KIND: KIND}
    if has_time:
        columns["t"] = f"unix_micros(`{relation.time}`)"
    if cuts.cuts:
        columns[PANE] = f"{columns['t']} - pmod({columns['t']}, {cuts.pane_us}L)"
    keys = all_keys(cuts)
    columns.update((key_name(i), _counted(key, emit(key))) for i, key in enumerate(keys))
    sets = []
    for c, cut in enumerate(cuts.cuts):
        names = word_names(cuts, c)
        for w, name in enumerate(names):
            columns[name] = _bits(cut.predicates[w * SIGNATURE_BITS:(w + 1) * SIGNATURE_BITS])
        sets.append((KIND, PANE, *(key_name(keys.index(k)) for k in cut.keys), *names))
    aggregates = [f"count(1) AS {ROWS}", f"{'max(t)' if has_time else 'CAST(NULL AS BIGINT)'} AS {NEWEST}"]
    args: dict[str, str] = {}
    for m, measure in enumerate(cuts.measures):
        arg = None if measure.arg is None else args.setdefault(_raw(measure), f"a{len(args)}")
        texts = zip(_texts(measure, arg), column_names(m, measure), strict=True)
        aggregates += [f"{text} AS {name}" for text, name in texts]
    columns.update((name, text) for text, name in args.items())
    shown = tuple(f"{text} AS {name}" for name, text in columns.items())
    return AggregateText(kind, shown, tuple(sets) or ((KIND,),), tuple(aggregates))


def column_names(index: int, measure: Measure) -> list[str]:
    """Names of the columns a measure has in the aggregate and in the pane log."""
    return [f"m{index}_{part}" for part in range(_PARTS.get(measure.kind, 1))]


def _counted(expr: Expr, text: str) -> str:
    """What can fail is only asked of rows that count."""
    return f"IF({KIND} = 0, {text}, NULL)" if may_raise(expr) else text


def _bits(predicates: tuple[Expr, ...]) -> str:
    """Predicates as bits of one BIGINT: 1 where true, 0 where false or null."""
    return " + ".join(f"IF({_counted(p, emit(p))}, {1 << i}L, 0L)" for i, p in enumerate(predicates))


def _raw(measure: Measure) -> str:
    """The measured value, as the number type the ring holds."""
    assert measure.arg is not None
    return _counted(measure.arg, _as_number(measure, emit(measure.arg)))


def _as_number(measure: Measure, text: str) -> str:
    assert measure.arg is not None
    kind = measure.arg.type
    if measure.kind in ("sum_float", "moments", "min_float", "max_float"):
        return text if kind.name == "double" else f"CAST({text} AS DOUBLE)"
    if measure.kind in ("sum_int", "min_int", "max_int"):
        if kind.name in ("timestamp", "timestamp_ntz"):
            return f"unix_micros(CAST({text} AS TIMESTAMP))"
        if kind.name == "date":
            return f"CAST(unix_date({text}) AS BIGINT)"
        if kind.name == "boolean":
            return f"CAST(CAST({text} AS INT) AS BIGINT)"
        return f"CAST({text} AS BIGINT)"
    return text


_PARTS = {"sum_int": 2, "moments": 3}


def _texts(measure: Measure, arg: str | None) -> list[str]:
    """SQL of each column of a measure, in the order of its ring columns."""
    match measure.kind:
        case "rows":
            return ["count(1)"]
        case "count":
            return [f"count({arg})"]
        case "sum_int":
            assert measure.arg is not None
            if measure.arg.type.name != "bigint":  # too small to overflow below 2³² rows
                return ["CAST(0 AS BIGINT)", f"sum({arg})"]
            return [f"sum(shiftright({arg}, 32))", f"sum({arg} & {LOW}L)"]
        case "sum_float":
            return [f"sum({arg})"]
        case "moments":
            mean, m2 = f"try_divide(sum({arg}), count({arg}))", f"var_pop({arg}) * count({arg})"
            return [f"CAST(count({arg}) AS DOUBLE)", mean, m2]
        case "min_int" | "min_float":
            return [f"min({arg})"]
        case "max_int" | "max_float":
            return [f"max({arg})"]
        case other:
            raise AssertionError(other)
