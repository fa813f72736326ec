"""A query text becomes a bound query: parse, find the window and the keys, bind the rest against
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.config import Config
from headrace.errors import SQLError, near
from headrace.sql.bind_expr import ExpressionBinder
from headrace.sql.bind_names import Names
from headrace.sql.naming import spark_name
from headrace.sql.parse_select import parse_select
from headrace.sql.query import Output, Query
from headrace.sql.syntax import Apply, Constant, Item, Name, Node, Select, Star
from headrace.sql.tree import Bound, Call, Column, Expr, Key, Literal, aggregates_of
from headrace.values import BOOLEAN, INTERVAL, VOID, Relation, Window

DEFAULTS = Config()
RESERVED_OUTPUTS = {"window_start": Bound("start"), "window_end": Bound("end")}


def bind(
    sql: str, relations: Mapping[str, Relation], *, name: str, config: Config = DEFAULTS
) -> Query:
    """The query a text means, over the relations of the catalog.  SQLError says where the text is
    at fault."""
    select = parse_select(sql, config)
    relation = _relation(select.source, select.source_at, relations, sql)
    other = select.joined
    joined = None if other is None else _relation(other.source, other.source_at, relations, sql)
    try:
        return _Binder(sql, select, relation, joined, config).query(name)
    except RecursionError:
        raise SQLError(
            f"the query is nested too deep (sql_depth_max={config.sql_depth_max})", sql=sql
        ) from None


def _relation(wanted: str, at: int, relations: Mapping[str, Relation], sql: str) -> Relation:
    for name, relation in relations.items():
        if name.lower() == wanted.lower():
            return relation
    hint = "" if relations else "create one first: CREATE STREAM …"
    raise SQLError(
        "unknown stream or table",
        sql=sql,
        at=at,
        value=wanted,
        choices=near(wanted, relations),
        hint=hint,
    )


@dataclass(slots=True)
class _Binder:
    """Binds one SELECT, clause by clause, in the order in which clauses need each other."""

    sql: str
    select: Select
    relation: Relation
    joined: Relation | None
    config: Config

    def query(self, name: str) -> Query:
        select = self.select
        names = self._names()
        where = self._where(names)
        window, keys = self._groups(names)
        names = replace(names, window=window, keys=keys)
        binder = self._binder(names, "SELECT", aggregates=True)
        items = self._items()
        bound = [binder.bind(item.node) for item in items]
        having, having_binder = self._having(names, items, bound)
        grouped = select.groups is not None or having is not None or bool(aggregates_of(*bound))
        if grouped:
            self._refuse_groups_of_pairs(bool(aggregates_of(*bound, having)))
            self._refuse_star()
            bound = [_lift(expr, keys, binder) for expr in bound]
            having = None if having is None else _lift(having, keys, having_binder)
        outputs = self._outputs(items, bound, window)
        joined = None if self.joined is None else self.joined.name
        return Query(
            name,
            self.sql,
            self.relation.name,
            outputs,
            where,
            keys,
            window,
            having,
            grouped,
            select.hints,
            joined,
        )

    def _names(self) -> Names:
        select, joined = self.select, self.select.joined
        alias = None if joined is None else joined.alias
        names = Names(
            self.sql, self.relation, select.alias, self.joined, alias, written=self._aliases()
        )
        if joined is not None and len({own.lower() for own, _ in names.sides}) == 1:
            raise self._error(
                "the two relations have the same name here",
                joined.source_at,
                value=joined.source,
                hint=f"give each an alias: FROM {select.source} AS a JOIN {joined.source} AS b ON …",
            )
        return names

    def _where(self, names: Names) -> Expr | None:
        """ON and WHERE: of an inner join they mean the same."""
        on = None if self.select.joined is None else self.select.joined.on
        found = [
            self._binder(names, clause).condition(node)
            for clause, node in (("ON", on), ("WHERE", self.select.where))
            if node is not None
        ]
        return Call("and", tuple(found), BOOLEAN) if len(found) > 1 else next(iter(found), None)

    def _refuse_groups_of_pairs(self, has_aggregates: bool) -> None:
        select = self.select
        if select.joined is None:
            return
        what = (
            "GROUP BY is"
            if select.groups is not None
            else "aggregates are"
            if has_aggregates
            else "HAVING is"
        )
        where = (
            "write the condition after WHERE"
            if what == "HAVING is"
            else "in two steps: add the join without it, then group its answers where they are read: eng.results(q)"
        )
        raise self._error(
            f"{what} not available over a join",
            select.joined.source_at,
            value=select.joined.source,
            hint=where,
        )

    def _binder(self, names: Names, clause: str, aggregates: bool = False) -> ExpressionBinder:
        return ExpressionBinder(self.sql, names, self.config, clause, aggregates)

    def _error(
        self,
        what: str,
        at: int,
        *,
        value: object = None,
        hint: str = "",
        choices: tuple[str, ...] = (),
    ) -> SQLError:
        return SQLError(what, sql=self.sql, at=at, value=value, hint=hint, choices=choices)

    def _aliases(self) -> tuple[str, ...]:
        return tuple(item.alias for item in self.select.items if item.alias is not None)

    # select list

    def _items(self) -> list[Item]:
        """The select list with * written out."""
        items: list[Item] = []
        for item in self.select.items:
            if isinstance(item.node, Star):
                items.extend(Item(name, None, item.at) for name in self._star(item.node))
            else:
                items.append(item)
        return items

    def _star(self, star: Star) -> list[Name]:
        """The columns * or r.* stands for."""
        sides = self._names().sides
        chosen = [
            s for s in sides if star.qualifier is None or s[0].lower() == star.qualifier.lower()
        ]
        if not chosen:
            raise self._error(
                "unknown relation",
                star.at,
                value=star.qualifier,
                choices=tuple(own for own, _ in sides),
            )
        return [Name((own, f.name), star.at) for own, relation in chosen for f in relation.fields]

    def _refuse_star(self) -> None:
        for item in self.select.items:
            if isinstance(item.node, Star):
                raise self._error(
                    "* cannot be selected from groups",
                    item.at,
                    value="*",
                    hint="name the keys and aggregates to select",
                )

    def _outputs(
        self, items: list[Item], bound: list[Expr], window: Window | None
    ) -> tuple[Output, ...]:
        outputs: list[Output] = []
        seen: set[str] = set()
        for item, expr in zip(items, bound, strict=True):
            name = item.alias if item.alias is not None else spark_name(item.node)
            self._check_output(name, expr, item, seen, window)
            seen.add(name.lower())
            outputs.append(Output(name, expr))
        return tuple(outputs)

    def _check_output(
        self, name: str, expr: Expr, item: Item, seen: set[str], window: Window | None
    ) -> None:
        if not name or len(name) > self.config.name_length_max:
            raise self._error(
                f"the column needs a name of at most {self.config.name_length_max} characters",
                item.at,
                value=name,
                hint="give it an alias with AS",
            )
        if name.lower() in seen:
            raise self._error(
                "two columns of the answer have the same name",
                item.at,
                value=name,
                hint="give one of them an alias with AS",
            )
        if expr.type in (VOID, INTERVAL):
            hint = (
                "write CAST(NULL AS DOUBLE), or another type"
                if expr.type == VOID
                else "use unix_timestamp(…)"
            )
            raise self._error(
                f"a column of the answer cannot be of type {expr.type}",
                item.at,
                value=name,
                hint=hint,
            )
        if window is not None and RESERVED_OUTPUTS.get(name.lower(), expr) != expr:
            raise self._error(
                f"{name} is the name of a bound of the window in the answer",
                item.at,
                value=name,
                hint="give it another alias",
            )

    # groups

    def _groups(self, names: Names) -> tuple[Window | None, tuple[Expr, ...]]:
        """The window and the other keys of GROUP BY: columns first, then aliases, then
        positions."""
        window: Window | None = None
        keys: dict[Expr, None] = {}
        binder = self._binder(names, "GROUP BY")
        for group in self.select.groups or ():
            node = self._target(group, names)
            if isinstance(node, Apply) and node.is_function and node.op == "window":
                window = self._window(node, window, names)
            else:
                keys[self._key(binder, node, group)] = None
        return window, tuple(keys)

    def _window(self, node: Apply, before: Window | None, names: Names) -> Window:
        window = names.read_window(node)
        if before not in (None, window):
            raise self._error(
                "a query has one window",
                node.at,
                value=f"{before} and {window}",
                hint="add one query per window",
            )
        if any(f.name.lower() == "window" for f in self.relation.fields):
            raise self._error(
                f"{self.relation.name} has a column `window`, which hides the window",
                node.at,
                value="window",
                hint="rename the column in the schema of the stream",
            )
        return window

    def _target(self, group: Node, names: Names) -> Node:
        if isinstance(group, Constant) and group.type.is_integral:
            return self._position(group)
        if isinstance(group, Name) and len(group.parts) == 1 and names.column(group) is None:
            for item in self.select.items:
                if item.alias is not None and item.alias.lower() == group.parts[0].lower():
                    return item.node
        return group

    def _position(self, group: Constant) -> Node:
        items = self._items()
        if not isinstance(group.value, int) or not 1 <= group.value <= len(items):
            raise self._error(
                f"GROUP BY takes positions 1 to {len(items)} here", group.at, value=group.value
            )
        return items[group.value - 1].node

    def _key(self, binder: ExpressionBinder, node: Node, group: Node) -> Expr:
        key = binder.bind(node)
        if key.type in (VOID, INTERVAL):
            raise self._error(f"a group key cannot be of type {key.type}", group.at, value=key.type)
        return key

    # having

    def _having(
        self, names: Names, items: list[Item], bound: list[Expr]
    ) -> tuple[Expr | None, ExpressionBinder]:
        aliases = {
            item.alias.lower(): expr
            for item, expr in zip(items, bound, strict=True)
            if item.alias is not None
        }
        binder = self._binder(replace(names, aliases=aliases), "HAVING", aggregates=True)
        return (
            None if self.select.having is None else binder.condition(self.select.having)
        ), binder


def _lift(expr: Expr, keys: tuple[Expr, ...], binder: ExpressionBinder) -> Expr:
    """Speak of keys instead of columns: what is neither a key nor inside an aggregate has no one
    value per group."""
    if not isinstance(expr, Literal) and expr in keys:
        return Key(keys.index(expr), expr.type)
    if isinstance(expr, Column):
        raise SQLError(
            f"{expr.name} is neither a group key nor inside an aggregate",
            sql=binder.sql,
            at=binder.places.get(expr.name),
            value=expr.name,
            hint=f"add it to GROUP BY, or write max({expr.name}) or any_value({expr.name})",
        )
    if isinstance(expr, Call):
        return Call(expr.op, tuple([_lift(arg, keys, binder) for arg in expr.args]), expr.type)
    return expr
