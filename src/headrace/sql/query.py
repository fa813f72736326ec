"""A bound standing query: frozen, with everything a family needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.sql.tree import Aggregate, Expr, aggregates_of, columns_of, remember_hash
from headrace.values import Window


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer, named as in the SELECT (or as Spark would name it)."""

    name: str
    expr: Expr
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remember_hash(self, (self.name, self.expr))

    def __reduce__(self) -> tuple[object, ...]:
        return Output, (self.name, self.expr)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Query:
    """One SELECT over one relation, or over two that are joined: `where` holds the condition of the
    join too.

    `keys` are the GROUP BY expressions besides the window; `outputs` and `having` of a grouped
    query speak only of Key, Bound, Aggregate, Literal and Call; of a plain one, only of Column,
    Literal, Call.
    """

    name: str
    sql: str
    source: str
    outputs: tuple[Output, ...]
    where: Expr | None = None
    keys: tuple[Expr, ...] = ()
    window: Window | None = None
    having: Expr | None = None
    grouped: bool = False
    hints: tuple[str, ...] = ()
    joined: str | None = None

    @property
    def relations(self) -> tuple[str, ...]:
        """The streams and tables it reads."""
        return (self.source,) if self.joined is None else (self.source, self.joined)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return aggregates_of(*(o.expr for o in self.outputs), self.having)

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the relation the query reads, the event time of its window aside."""
        return columns_of(*(o.expr for o in self.outputs), self.where, self.having, *self.keys)
