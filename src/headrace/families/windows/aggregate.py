"""The one Spark aggregate of a round, as SQL text emitted from bound trees.

Rows are grouped by pane, the keys of a cut and the bits of its predicates; several cuts are the
grouping sets of the same aggregate, so the rows are read once.  Rows that do not count (late, no
time, bad) fall into groups of their own, by kind: the census of the round comes with the answer.

What follows from the keys of a cut (a predicate on a key, a key made of another) is evaluated on the groups only.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.families.windows.measures import Measure
from headrace.families.windows.plan import SIGNATURE_BITS, Cut, Cuts
from headrace.sql.emit import emit
from headrace.sql.functions import may_raise
from headrace.sql.tree import Call, Column, Expr, columns_of
from headrace.values import Relation

KIND, PANE, ROWS, NEWEST, SET = "_headrace_kind", "pane", "census_rows", "newest", "cut"
LOW = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Signature:
    """The bits of a cut: predicates asked of every row, and those that follow from its keys."""

    of_rows: tuple[Expr, ...]
    of_keys: tuple[Expr, ...]

    def place(self, where: Expr) -> tuple[int, int]:
        """Word and bit of a predicate."""
        if where in self.of_rows:
            return divmod(self.of_rows.index(where), SIGNATURE_BITS)
        word, bit = divmod(self.of_keys.index(where), SIGNATURE_BITS)
        return _words(self.of_rows) + word, bit


def signature(cut: Cut) -> Signature:
    follows = [p for p in cut.predicates if _follows(p, cut)]
    return Signature(tuple(p for p in cut.predicates if p not in follows), tuple(follows))


def _follows(expr: Expr, cut: Cut) -> bool:
    """Whether the value is the same for all rows of a group, and can be had without risk."""
    columns = {k.name for k in cut.keys if isinstance(k, Column)}
    return columns_of(expr) <= columns and not may_raise(expr)


def _words(predicates: tuple[Expr, ...]) -> int:
    return -(-len(predicates) // SIGNATURE_BITS)


def all_keys(cuts: Cuts) -> list[Expr]:
    return list(dict.fromkeys(k for cut in cuts.cuts for k in cut.keys))


def key_name(index: int) -> str:
    return f"k{index}"


def word_names(cuts: Cuts, c: int) -> list[str]:
    """Signature columns of a cut; cuts with the same predicates of rows share those."""
    own = signature(cuts.cuts[c])
    same = next(i for i, cut in enumerate(cuts.cuts) if signature(cut).of_rows == own.of_rows)
    rows = [f"s{same}_{word}" for word in range(_words(own.of_rows))]
    return rows + [f"f{c}_{word}" for word in range(_words(own.of_keys))]


def aggregate_sql(cuts: Cuts, relation: Relation, kind: str, view: str) -> str:
    """The aggregate for these cuts over the rows of `view`; `kind` is the SQL that tells whether a row counts.

    The kind has a projection of its own: inlined, Spark would evaluate it once for every column that asks."""
    has_time = relation.time is not None
    columns = {KIND: KIND}
    if has_time:
        columns["t"] = f"unix_micros(`{relation.time}`)"
    if cuts.cuts:
        columns[PANE] = f"{columns['t']} - pmod({columns['t']}, {cuts.pane_us}L)"
    keys = all_keys(cuts)
    after: dict[str, str] = {}
    sets = [(KIND, PANE, *_group_columns(cuts, c, keys, columns, after)) for c in range(len(cuts.cuts))]
    aggregates = [f"count(1) AS {ROWS}", f"{'max(t)' if has_time else 'CAST(NULL AS BIGINT)'} AS {NEWEST}"]
    args: dict[str, str] = {}
    for m, measure in enumerate(cuts.measures):
        arg = None if measure.arg is None else args.setdefault(_raw(measure), f"a{len(args)}")
        texts = zip(_texts(measure, arg), column_names(m, measure), strict=True)
        aggregates += [f"{text} AS {name}" for text, name in texts]
    columns.update((name, text) for text, name in args.items())
    return _select(columns, sets or [(KIND,)], aggregates, after, f"SELECT *, {kind} AS {KIND} FROM {view}")


def _group_columns(
    cuts: Cuts, c: int, keys: list[Expr], columns: dict[str, str], after: dict[str, str]
) -> list[str]:
    """What a cut groups by; what follows from that goes to `after`."""
    cut = cuts.cuts[c]
    own = signature(cut)
    bare = {k.name: key_name(keys.index(k)) for k in cut.keys if isinstance(k, Column)}
    names = []
    for key in cut.keys:
        name = key_name(keys.index(key))
        if not isinstance(key, Column) and _follows(key, cut):
            after.setdefault(name, emit(_renamed(key, bare)))
        else:
            columns[name] = _counted(key, emit(key))
            names.append(name)
    rows = _words(own.of_rows)
    for w, name in enumerate(word_names(cuts, c)):
        if w < rows:
            columns[name] = _bits(own.of_rows[w * SIGNATURE_BITS : (w + 1) * SIGNATURE_BITS])
            names.append(name)
        else:
            first = (w - rows) * SIGNATURE_BITS
            after[name] = _bits(tuple(_renamed(p, bare) for p in own.of_keys[first : first + SIGNATURE_BITS]))
    return names


def _select(
    columns: dict[str, str], sets: list[tuple[str, ...]], aggregates: list[str], after: dict[str, str], rows: str
) -> str:
    """The nested SELECT: rows with their kind, columns made of them, groups, and what follows from the groups."""
    grouped = list(dict.fromkeys(name for names in sets for name in names))
    made = ", ".join(f"{text} AS {name}" for name, text in columns.items())
    # Spark numbers a grouping set by its missing columns: a bit for each, the first column highest
    numbers = [sum(1 << (len(grouped) - 1 - i) for i, g in enumerate(grouped) if g not in names) for names in sets]
    which = "0L" if len(sets) == 1 else f"CASE grouping_id() {_cases(numbers)} END"
    by = ", ".join(grouped)
    if len(sets) > 1:
        lists = [f"({', '.join(names)})" for names in sets]
        by += f" GROUPING SETS ({', '.join(lists)})"
    shown = ", ".join([*grouped, f"{which} AS {SET}", *aggregates])
    groups = f"SELECT {shown} FROM (SELECT {made} FROM ({rows})) GROUP BY {by}"
    if not after:
        return groups
    return f"SELECT *, {', '.join(f'{text} AS {name}' for name, text in after.items())} FROM ({groups})"


def _cases(numbers: list[int]) -> str:
    return " ".join(f"WHEN {number} THEN {i}L" for i, number in enumerate(numbers))


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    """The tree over the names of group columns."""
    if isinstance(expr, Column):
        return Column(names[expr.name], expr.type)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(_renamed(a, names) for a in expr.args), expr.type)
    return expr


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
