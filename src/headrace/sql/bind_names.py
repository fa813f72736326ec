"""Names: columns of the relation, aliases of the select list, and the window of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import HeadraceError, SQLError, near
from headrace.sql.duration import parse_duration_us
from headrace.sql.syntax import Apply, Constant, Name, Node
from headrace.sql.tree import Bound, Column, Expr, columns_of
from headrace.values import INTERVAL, STRING, TIMESTAMP, Relation, Window

_ARGUMENTS = ("range", "slide", "offset")


@dataclass(slots=True)
class Names:
    """What a name may mean.  Names have no case, as in Spark.

    `aliases` are those that may be used now (HAVING); `written` is every alias of the SELECT, for
    error messages.
    """

    sql: str
    relation: Relation
    alias: str | None = None
    joined: Relation | None = None
    joined_alias: str | None = None
    window: Window | None = None
    keys: tuple[Expr, ...] = ()
    aliases: Mapping[str, Expr] = field(default_factory=dict)
    written: tuple[str, ...] = ()

    @property
    def qualifier(self) -> str:
        return self.alias or self.relation.name

    @property
    def sides(self) -> tuple[tuple[str, Relation], ...]:
        """The relations, each with what its columns may be written with."""
        own = (self.qualifier, self.relation)
        return (
            (own,)
            if self.joined is None
            else (own, (self.joined_alias or self.joined.name, self.joined))
        )

    def resolve(self, node: Name, inside_aggregate: bool) -> Expr:
        bound = self._bound(node)
        if bound is not None:
            return bound
        column = self.column(node)
        alias = (
            None
            if inside_aggregate or len(node.parts) > 1
            else self.aliases.get(node.parts[0].lower())
        )
        if column is None and alias is None:
            raise self._unknown(node)
        if alias is None or column in self.keys:
            assert column is not None
            return column
        if column is not None and column.name in columns_of(*self.keys):
            raise SQLError(
                "the name is both an alias and a column of a group key",
                sql=self.sql,
                at=node.at,
                value=node.parts[0],
                hint="give the alias another name",
            )
        return alias

    def _bound(self, node: Name) -> Bound | None:
        head, *rest = [part.lower() for part in node.parts]
        if head != "window" or self.window is None or len(rest) > 1:
            return None
        if rest and rest[0] not in ("start", "end"):
            raise SQLError(
                "a window has no such field",
                sql=self.sql,
                at=node.at,
                value=".".join(node.parts),
                choices=("window.start", "window.end"),
            )
        return Bound(rest[0] if rest else "window")

    def column(self, node: Name) -> Column | None:
        """The column of that name, if there is one."""
        *qualifier, name = node.parts
        found = [
            (own, Column(f.name, f.type, side))
            for side, (own, relation) in enumerate(self.sides)
            if not qualifier or [own.lower()] == [q.lower() for q in qualifier]
            for f in relation.fields
            if f.name.lower() == name.lower()
        ]
        if len(found) > 1:
            raise SQLError(
                "the name fits several columns",
                sql=self.sql,
                at=node.at,
                value=name,
                choices=tuple(f"{own}.{c.name}" if self.joined else c.name for own, c in found),
            )
        return found[0][1] if found else None

    def _unknown(self, node: Name) -> SQLError:
        name = ".".join(node.parts)
        hint = ""
        if node.parts[0].lower() == "window":
            hint = f"GROUP BY window({self.relation.time or 'time'}, '1 hour') makes window.start and window.end"
        elif name.lower() in (w.lower() for w in self.written):
            hint = f"{name} is an alias of this SELECT: repeat its expression here"
        elif len(node.parts) > 1 and node.parts[0].lower() not in (
            own.lower() for own, _ in self.sides
        ):
            written = " or ".join(f"{own}.name" for own, _ in self.sides)
            hint = f"columns here are written {written}, or name"
        choices = near(
            node.parts[-1], (f.name for _, relation in self.sides for f in relation.fields)
        )
        where = " and ".join(relation.name for _, relation in self.sides)
        return SQLError(
            f"unknown column in {where}",
            sql=self.sql,
            at=node.at,
            value=name,
            choices=choices,
            hint=hint,
        )

    # the window

    def require_window(self, node: Apply, clause: str) -> None:
        """`window(…)` outside GROUP BY must be the one of GROUP BY."""
        window = self.read_window(node)
        if self.window is None:
            raise SQLError(
                f"window(…) in {clause} must be in GROUP BY too",
                sql=self.sql,
                at=node.at,
                value=clause,
                hint="add the same window(…) to GROUP BY",
            )
        if window != self.window:
            raise SQLError(
                "a query has one window; this one differs from that in GROUP BY",
                sql=self.sql,
                at=node.at,
                value=window,
                hint="write window.start and window.end; add a query per window",
            )

    def read_window(self, node: Apply) -> Window:
        """window(time, 'range'[, 'slide'[, 'offset']]) → the window, or what is wrong with it."""
        if node.distinct or node.filter is not None or not 2 <= len(node.args) <= 4:
            raise SQLError(
                "window takes the time, a range, and perhaps a slide and an offset",
                sql=self.sql,
                at=node.at,
                value=f"{len(node.args)} arguments",
                hint="window(ts, '1 hour', '10 minutes')",
            )
        self._require_time(node.args[0])
        lengths = [self._length(arg, _ARGUMENTS[index]) for index, arg in enumerate(node.args[1:])]
        range_us = lengths[0]
        slide_us = lengths[1] if len(lengths) > 1 else range_us
        offset_us = lengths[2] if len(lengths) > 2 else 0
        return Window(range_us, slide_us, offset_us % slide_us)

    def _require_time(self, node: Node) -> None:
        relation = self.relation
        if relation.is_table:
            raise SQLError(
                f"{relation.name} is a table: it has no event time to window by",
                sql=self.sql,
                at=node.at,
                value=relation.name,
                hint="group by its columns, or window a stream",
            )
        column = self.column(node) if isinstance(node, Name) else None
        if isinstance(node, Name) and column is None:
            raise self._unknown(node)
        if relation.time is None:
            raise SQLError(
                f"{relation.name} has no event time",
                sql=self.sql,
                at=node.at,
                hint=f"create the stream with time=…, one of its {TIMESTAMP} columns",
            )
        if column is None or column.name.lower() != relation.time.lower():
            raise SQLError(
                f"window goes over the event time of {relation.name}, which is {relation.time}",
                sql=self.sql,
                at=node.at,
                value=column.name if column else "an expression",
                choices=(relation.time,),
            )
        if column.type != TIMESTAMP:
            raise SQLError(
                "the event time of a window is a TIMESTAMP",
                sql=self.sql,
                at=node.at,
                value=column.type,
            )

    def _length(self, node: Node, which: str) -> int:
        if not isinstance(node, Constant) or node.type not in (STRING, INTERVAL):
            shown = node.shown if isinstance(node, Constant) else "an expression"
            raise SQLError(
                f"the {which} of a window is a constant",
                sql=self.sql,
                at=node.at,
                value=shown,
                hint="write it as '1 hour' or INTERVAL 1 HOUR",
            )
        try:
            length = (
                node.value if isinstance(node.value, int) else parse_duration_us(str(node.value))
            )
        except HeadraceError as error:
            raise SQLError(
                f"the {which} of a window: {error.what}",
                sql=self.sql,
                at=node.at,
                value=error.value,
                choices=error.choices,
                hint=error.hint,
            ) from None
        if which != "offset" and length <= 0:
            raise SQLError(
                f"the {which} of a window must be longer than nothing",
                sql=self.sql,
                at=node.at,
                value=repr(node.value) if node.type == STRING else node.shown,
            )
        return length
