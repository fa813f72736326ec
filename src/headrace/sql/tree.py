"""The bound tree: what a query means, once every name, function and type is known.

Nothing in it is text of the user's: Spark is given SQL emitted from these nodes (`emit.py`),
so what the binder does not know cannot reach Spark.  Nodes are frozen and hashable; equal
trees mean equal work, which is what the families share by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.values import BIGINT, TIMESTAMP, WINDOW, Type

Value = None | bool | int | float | str


def remember_hash(node: object, content: tuple[object, ...]) -> int:
    """A tree is looked up far more often than made: hash it once.  (The node has a slot
    `_hash`.)  The hash of a text is another in every process: what is sent to one is sent without."""
    found = hash(content) or 1
    object.__setattr__(node, "_hash", found)
    return found


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the query's relation; of the joined one, if `side` is 1."""

    name: str
    type: Type
    side: int = 0


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant.  Value by type: decimal → its digits as str ('2.50'), date → 'YYYY-MM-DD',
    timestamp → 'YYYY-MM-DD HH:MM:SS[.ffffff]' as written, interval → microseconds as int; void →
    None."""

    value: Value
    type: Type

    def __eq__(self, other: object) -> bool:
        """Python takes 0.0 and -0.0 for one value, but what is computed from them differs."""
        if not isinstance(other, Literal):
            return NotImplemented
        a, b = self.value, other.value
        return (
            self.type == other.type
            and type(a) is type(b)
            and a == b
            and (a != 0 or str(a) == str(b))
        )

    def __hash__(self) -> int:
        return hash((self.value, self.type))


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of the allow-list (`functions.py`), by its canonical lower-case name.

    Special shapes: 'case' has args (when, then, …, otherwise) — always odd, otherwise may be a void
    literal; 'cast' / 'try_cast' have one arg and cast it to `type`; 'in' has args (needle, choice,
    …).
    """

    op: str
    args: tuple[Expr, ...]
    type: Type
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remember_hash(self, (self.op, self.args, self.type))

    def __reduce__(self) -> tuple[object, ...]:
        return Call, (self.op, self.args, self.type)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate call.  `count(*)` has no args.  FILTER (WHERE c) is folded into the args, as
    'filtered' of c and each: the value where c holds, else null."""

    op: str
    args: tuple[Expr, ...]
    type: Type
    distinct: bool = False
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash or remember_hash(self, (self.op, self.args, self.type, self.distinct))

    def __reduce__(self) -> tuple[object, ...]:
        return Aggregate, (self.op, self.args, self.type, self.distinct)


@dataclass(frozen=True, slots=True)
class Key:
    """In outputs and HAVING of a grouped query: the group key of that position."""

    index: int
    type: Type


@dataclass(frozen=True, slots=True)
class Bound:
    """In outputs and HAVING: a bound of the window ('start' or 'end'), or the whole ('window')."""

    which: str

    @property
    def type(self) -> Type:
        return WINDOW if self.which == "window" else TIMESTAMP


Expr = Column | Literal | Call | Aggregate | Key | Bound

COUNT_ROWS = Aggregate("count", (), BIGINT)
FILTERED = "filtered"


def walk(expr: Expr) -> Iterator[Expr]:
    """The node and all below it, parents first."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call | Aggregate):
            stack.extend(reversed(node.args))


def columns_of(*exprs: Expr | None) -> frozenset[str]:
    return frozenset(
        n.name for e in exprs if e is not None for n in walk(e) if isinstance(n, Column)
    )


def aggregates_of(*exprs: Expr | None) -> tuple[Aggregate, ...]:
    """Distinct aggregates in order of appearance."""
    seen: dict[Aggregate, None] = {}
    for e in exprs:
        if e is not None:
            seen.update((n, None) for n in walk(e) if isinstance(n, Aggregate))
    return tuple(seen)
