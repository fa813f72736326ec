"""What the parser makes of a text: shapes without meaning.  Every node knows where it was written
(`at`).

`depth` is kept as nodes are made, so that a limit on it is checked while parsing and everything
after (binding, hashing, emitting) may recurse.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sql.tree import Value
from headrace.values import Type


@dataclass(frozen=True, slots=True)
class Name:
    """`price`, `t.price`, `window.start`."""

    parts: tuple[str, ...]
    at: int
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `shown` is how Spark writes it in the name of a column."""

    value: Value
    type: Type
    shown: str
    at: int
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Star:
    """`*` or `t.*`, in a select list or in count(*)."""

    qualifier: str | None
    at: int
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator, a function by the name as written (lower case), or one of the special shapes:

    'case' (when, then, …[, otherwise]), 'case_of' (operand, when, then, …[, otherwise]),
    'cast' / 'try_cast' (operand; `to` is the type), 'field' (operand; `to_field` is the name).
    """

    op: str
    args: tuple[Node, ...]
    at: int
    depth: int
    is_function: bool = False
    distinct: bool = False
    filter: Node | None = None
    to: Type | None = None
    to_field: str = ""


Node = Name | Constant | Star | Apply


@dataclass(frozen=True, slots=True)
class Item:
    """One expression of the select list, with the alias written for it."""

    node: Node
    alias: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A second relation: JOIN … ON, CROSS JOIN, or after a comma."""

    source: str
    source_at: int
    alias: str | None
    on: Node | None


@dataclass(frozen=True, slots=True)
class Select:
    items: tuple[Item, ...]
    source: str
    source_at: int
    alias: str | None
    where: Node | None
    groups: tuple[Node, ...] | None
    having: Node | None
    hints: tuple[str, ...]
    joined: Joined | None = None
