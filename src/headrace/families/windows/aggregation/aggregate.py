"""The one Spark aggregate of a round, as SQL text emitted from bound trees.

Rows are grouped by pane, the keys of a cut and the bits of its predicates; several cuts are the
grouping sets of the same aggregate, so the rows are read once.  Rows that do not count (late, no
time, bad) fall into groups of their own, by kind: the census of the round comes with the answer.

What follows from the keys of a cut (a predicate on a key, a key made of another) is a *fact* of a
group: it is not asked of the rows, but once of each key that has not been seen before.  What rows
of a group may differ in (`aggregation/sameness.py`: the text of a zero, say) is no fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headrace.families.windows.aggregation.columns import (
    KIND,
    NO_LIMITS,
    asked_for,
    counted,
    part_sql,
)
from headrace.families.windows.aggregation.sameness import is_same_in_a_group
from headrace.families.windows.cells import attribute_sql, rank_sql
from headrace.families.windows.cuts import Cut, Cuts
from headrace.families.windows.plan import SIGNATURE_BITS
from headrace.families.windows.sketches.kinds import Limits, argument_sql
from headrace.quoting import quote_name
from headrace.sql.emit import emit
from headrace.sql.functions import may_raise
from headrace.sql.tree import Call, Column, Expr, columns_of
from headrace.values import Relation

PANE, NEWEST, SET = "pane", "newest", "cut"


@dataclass(frozen=True, slots=True)
class Grouping:
    """What Spark groups the rows of a cut by, and what is known of a group by its keys alone."""

    keys: tuple[Expr, ...]
    predicates: tuple[Expr, ...]
    facts: tuple[Expr, ...]
    cells: tuple[Expr, ...] = ()

    @property
    def words(self) -> int:
        """BIGINT columns the bits of the predicates take."""
        return -(-len(self.predicates) // SIGNATURE_BITS)

    def place(self, where: Expr) -> tuple[int, int]:
        """Word and bit of a predicate that is not a fact."""
        return divmod(self.predicates.index(where), SIGNATURE_BITS)


@lru_cache(maxsize=1_000)
def grouping(cut: Cut) -> Grouping:
    """Bare columns are keys; what is made of them, without risk of failing, is a fact."""
    columns = {k.name for k in cut.keys if isinstance(k, Column)}

    def follows(expr: Expr) -> bool:
        is_made = not isinstance(expr, Column) and columns_of(expr) <= columns
        return cut.has_facts and is_made and not may_raise(expr) and is_same_in_a_group(expr)

    facts = dict.fromkeys(e for e in (*cut.keys, *cut.predicates) if follows(e))
    return Grouping(
        tuple(k for k in cut.keys if k not in facts),
        tuple(p for p in cut.predicates if p not in facts),
        tuple(facts),
        cut.cells,
    )


def all_keys(cuts: Cuts) -> list[Expr]:
    """The keys Spark groups by, of all cuts."""
    return list(dict.fromkeys(k for cut in cuts.cuts for k in grouping(cut).keys))


def key_name(index: int) -> str:
    return f"k{index}"


def cell_name(cuts: Cuts, key: Expr) -> str:
    """The column of the shared aggregate that says in which cell of `key` a row lies."""
    return f"c{next(i for i, (own, _) in enumerate(cuts.edges) if own == key)}"


def word_names(cuts: Cuts, c: int) -> list[str]:
    """Signature columns of a cut; cuts with the same predicates share them."""
    own = grouping(cuts.cuts[c])
    same = next(i for i, cut in enumerate(cuts.cuts) if grouping(cut).predicates == own.predicates)
    return [f"s{same}_{word}" for word in range(own.words)]


def words(cuts: Cuts, c: int) -> dict[str, str]:
    """How each signature column of a cut is made of a row."""
    asked = grouping(cuts.cuts[c]).predicates
    return {
        name: _bits(asked[w * SIGNATURE_BITS : (w + 1) * SIGNATURE_BITS])
        for w, name in enumerate(word_names(cuts, c))
    }


def aggregate_sql(
    cuts: Cuts, relation: Relation, kind: str, view: str, limits: Limits = NO_LIMITS
) -> str:
    """The aggregate for these cuts over the rows of `view`; `kind` is the SQL that tells whether a
    row counts.

    The kind and the attributes of cells have a projection of their own: inlined, Spark would
    evaluate them once for every column that asks."""
    before, attributes, after = _around(cuts, relation, limits)
    return f"{before} FROM (SELECT *, {kind} AS {KIND}{attributes} FROM {view})) {after}"


@lru_cache(maxsize=16)
def _around(cuts: Cuts, relation: Relation, limits: Limits) -> tuple[str, str, str]:
    """What stands before and after the rows in the text, and the attributes of cells: the same from
    round to round."""
    assert relation.time is not None, "windows are of streams"
    columns = {KIND: KIND, "t": f"unix_micros({quote_name(relation.time)})"}
    columns[PANE] = f"{columns['t']} - pmod({columns['t']}, {cuts.pane_us}L)"
    keys = all_keys(cuts)
    sets = [(KIND, PANE, *_group_columns(cuts, c, keys, columns)) for c in range(len(cuts.cuts))]
    aggregates = [f"max(t) AS {NEWEST}"]
    args = {"1": "1"}
    for name, (function, text) in asked_for(cuts.measures, limits).columns.items():
        arg = args.setdefault(argument_sql(function, text), f"a{len(args)}")
        aggregates.append(f"{part_sql(function, arg, limits)} AS {name}")
    columns.update((name, text) for text, name in args.items() if name != text)
    made = ", ".join(f"{text} AS {name}" for name, text in columns.items())
    shown, by = _grouped(sets)
    attributes = "".join(
        f", {attribute_sql(key)} AS {_attribute_name(i)}" for i, (key, _) in enumerate(cuts.edges)
    )
    return f"SELECT {', '.join([*shown, *aggregates])} FROM (SELECT {made}", attributes, by


def _attribute_name(index: int) -> str:
    return f"_headrace_x{index}"


def _cell_sql(cuts: Cuts, key: Expr) -> str:
    index, edges = next((i, edges) for i, (own, edges) in enumerate(cuts.edges) if own == key)
    return rank_sql(key, edges, _attribute_name(index))


def _group_columns(cuts: Cuts, c: int, keys: list[Expr], columns: dict[str, str]) -> list[str]:
    """What a cut groups by; how each is made of a row goes to `columns`."""
    own = grouping(cuts.cuts[c])
    names = [key_name(keys.index(key)) for key in own.keys]
    columns.update(
        (name, counted(key, emit(key))) for name, key in zip(names, own.keys, strict=True)
    )
    cells = [cell_name(cuts, key) for key in own.cells]
    columns.update((name, _cell_sql(cuts, key)) for name, key in zip(cells, own.cells, strict=True))
    bits = words(cuts, c)
    columns.update(bits)
    return [*names, *cells, *bits]


def _grouped(sets: list[tuple[str, ...]]) -> tuple[list[str], str]:
    """The grouped columns to show, with the number of the cut if there are several, and GROUP
    BY."""
    grouped = list(dict.fromkeys(name for names in sets for name in names))
    if len(sets) == 1:
        return grouped, f"GROUP BY {', '.join(grouped)}"
    # Spark numbers a grouping set by its missing columns: a bit for each, the first column highest
    numbers = [
        sum(1 << (len(grouped) - 1 - i) for i, g in enumerate(grouped) if g not in names)
        for names in sets
    ]
    cases = " ".join(f"WHEN {number} THEN {i}L" for i, number in enumerate(numbers))
    lists = ", ".join(f"({', '.join(names)})" for names in sets)
    shown = [*grouped, f"CASE grouping_id() {cases} END AS {SET}"]
    return shown, f"GROUP BY {', '.join(grouped)} GROUPING SETS ({lists})"


def _bits(predicates: tuple[Expr, ...]) -> str:
    """Predicates as bits of one BIGINT: 1 where true, 0 where false or null."""
    return " + ".join(f"IF({counted(p, emit(p))}, {1 << i}L, 0L)" for i, p in enumerate(predicates))


def fact_sql(fact: Expr, names: dict[str, str]) -> str:
    """A fact over the columns `names` gives for those of the relation."""
    return emit(_renamed(fact, names))


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    if isinstance(expr, Column):
        return Column(names[expr.name], expr.type)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(_renamed(a, names) for a in expr.args), expr.type)
    return expr
