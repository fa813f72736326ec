"""Expressions: from shapes to the bound tree.  Every name, function and type is known afterwards.

Equal meanings become equal trees where that is cheap and safe, because the families share by
equality: `!=` is `<>`, BETWEEN is two comparisons, constants stand on the right, IF and CASE x WHEN
are CASE WHEN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from headrace.config import Config
from headrace.errors import SQLError, near
from headrace.sql import literals, patterns, rules
from headrace.sql.bind_aggregate import bind_aggregate, bind_count_if
from headrace.sql.bind_names import Names
from headrace.sql.functions import AGGREGATES, SCALARS, Function, function_names, lookup
from headrace.sql.syntax import Apply, Constant, Name, Node, Star
from headrace.sql.tree import Bound, Call, Column, Expr, Literal, walk
from headrace.sql.types import MismatchError, atomic
from headrace.values import BOOLEAN, DATE, STRING, VOID, Type

_NULL = Literal(None, VOID)
_MIRRORED = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(slots=True)
class ExpressionBinder:
    """Binds the expressions of one query.  `clause` names where we are, for errors; aggregates are
    bound only where `aggregates` says so."""

    sql: str
    names: Names
    config: Config
    clause: str = "SELECT"
    aggregates: bool = False
    inside: str = ""  # the aggregate whose arguments are being bound
    # column → first place outside any aggregate
    places: dict[str, int] = field(default_factory=dict)
    copies_left: int = 0

    def __post_init__(self) -> None:
        self.copies_left = self.config.sql_length_max

    def bind(self, node: Node) -> Expr:
        if isinstance(node, Constant):
            return Literal(node.value, node.type)
        if isinstance(node, Name):
            return self._name(node)
        if isinstance(node, Star):
            raise self.error("* stands alone in a select list, or in count(*)", node)
        if node.is_function:
            return self._function(node)
        return self._operator(node)

    def condition(self, node: Node) -> Expr:
        """Bind what stands after WHERE, HAVING, ON or FILTER: it must be boolean."""
        expr = self.bind(node)
        if expr.type != BOOLEAN:
            raise self.error(
                f"{self.clause} takes a condition, found {expr.type}",
                node,
                value=expr.type,
                hint="compare the value with something",
            )
        return expr

    def error(
        self,
        what: str,
        node: Node,
        *,
        value: object = None,
        hint: str = "",
        choices: tuple[str, ...] = (),
    ) -> SQLError:
        return SQLError(what, sql=self.sql, at=node.at, value=value, hint=hint, choices=choices)

    def _name(self, node: Name) -> Expr:
        expr = self.names.resolve(node, bool(self.inside))
        if isinstance(expr, Bound) and self.inside:
            raise self.error(
                "a bound of the window cannot be inside an aggregate",
                node,
                value=f"{self.inside}(…)",
            )
        if not self.inside:
            for column in walk(expr):
                if isinstance(column, Column):
                    self.places.setdefault(column.name, node.at)
        return expr

    # calls

    def _function(self, node: Apply) -> Expr:
        if node.op == "window":
            return self._window(node)
        rewrite = _REWRITES.get(node.op)
        if rewrite is not None:
            self._plain(node)
            return rewrite(self, node)
        if node.op == "count_if":
            return bind_count_if(self, node)
        function = lookup(node.op)
        if function is None:
            raise self._unknown(node)
        if AGGREGATES.get(function.name) is function:
            return bind_aggregate(self, node, function)
        self._plain(node)
        return self._call(function, node, node.args)

    def _unknown(self, node: Apply) -> SQLError:
        if node.op == "session_window":
            return self.error(
                "session_window is not available: its windows depend on the rows of one query",
                node,
                value=node.op,
                hint="use window(time, 'range'[, 'slide'])",
            )
        kind = atomic(node.op)
        if kind is not None:
            return self.error(
                "a type is no function here", node, value=node.op, hint=f"write CAST(… AS {kind})"
            )
        return self.error(
            "unknown function, or one that a standing query may not use",
            node,
            value=node.op,
            choices=near(node.op, function_names()),
        )

    def _plain(self, node: Apply) -> None:
        if node.distinct or node.filter is not None:
            word = "DISTINCT" if node.distinct else "FILTER"
            raise self.error(f"{word} goes with aggregates only", node, value=node.op)

    def _operator(self, node: Apply) -> Expr:
        op = node.op
        if op in ("cast", "try_cast"):
            return self._cast(op, node, node.to)
        if op == "field":
            return self._field(node)
        if op == "plus":
            return self._plus(node)
        special = _OPERATORS.get(op)
        if special is not None:
            return special(self, node)
        return self._call(SCALARS[op], node, node.args)

    def _call(self, function: Function, node: Apply, nodes: tuple[Node, ...]) -> Call:
        args = tuple([self.bind(arg) for arg in nodes])
        return self.typed(function, node, args)

    def typed(
        self, function: Function, node: Apply, args: tuple[Expr, ...], nodes: tuple[Node, ...] = ()
    ) -> Call:
        """`nodes` are where the args were written, if not in order the args of `node`."""
        self._count_args(function, node, len(args))
        try:
            if function.rule in (rules.compare, rules.nullif):
                args = self._times(args, nodes or node.args)
            kind = function.rule(args)
            args = self._pattern(function.name, args)
        except MismatchError as error:
            raise self._mismatch(error, node, nodes or node.args) from None
        return Call(function.name, args, kind)

    def _mismatch(self, error: MismatchError, node: Apply, nodes: tuple[Node, ...]) -> SQLError:
        at = nodes[error.arg] if error.arg is not None and error.arg < len(nodes) else node
        what = f"{node.op}: {error.what}"
        return self.error(what, at, value=error.value, hint=error.hint, choices=error.choices)

    def _count_args(self, function: Function, node: Apply, count: int) -> None:
        if function.least <= count <= function.most:
            return
        wanted = (
            f"{function.least}"
            if function.least == function.most
            else f"{function.least} to {function.most:,}"
        )
        raise self.error(f"{node.op} takes {wanted} arguments", node, value=f"{count} arguments")

    def _pattern(self, op: str, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The arguments, with the pattern as it is given to Spark."""
        if op not in ("like", "ilike", "rlike"):
            return args
        pattern = args[1]
        if not isinstance(pattern, Literal):
            raise MismatchError(
                "the pattern must be a constant",
                arg=1,
                value=pattern.type,
                hint="use startswith, endswith or contains to compare two columns",
            )
        if pattern.value is None:
            return args
        if op == "rlike":
            return args[0], Literal(patterns.check_regex(str(pattern.value), self.config), STRING)
        escape = (
            args[2].value if len(args) == 3 and isinstance(args[2], Literal) else patterns.ESCAPE
        )
        patterns.check_like(str(pattern.value), str(escape), op == "ilike", self.config)
        return args

    def _times(self, args: tuple[Expr, ...], nodes: tuple[Node, ...]) -> tuple[Expr, ...]:
        """A constant string beside a time is a time: `ts > '2024-01-01'`."""
        times = [arg.type for arg in args if arg.type.is_time]
        if not times:
            return args
        return tuple([self._time(arg, times[0], index) for index, arg in enumerate(args)])

    def _time(self, arg: Expr, kind: Type, index: int) -> Expr:
        if not (isinstance(arg, Literal) and arg.type == STRING):
            return arg
        try:
            return literals.as_time(str(arg.value), kind)
        except ValueError as error:
            raise MismatchError(
                str(error), arg=index, value=repr(arg.value), hint=literals.TIMES
            ) from None

    # shapes with a form of their own

    def _compare(self, node: Apply) -> Expr:
        return self._mirrored(self._call(SCALARS[node.op], node, node.args))

    def _mirrored(self, call: Call) -> Call:
        """A comparison with its constant on the right: `5 < x` becomes `x > 5`."""
        left, right = call.args
        if isinstance(left, Literal) and not isinstance(right, Literal):
            return Call(_MIRRORED[call.op], (right, left), call.type)
        return call

    def _plus(self, node: Apply) -> Expr:
        """`+x` is x; but `+5` is no literal to Spark, which shows in the digits of a decimal beside
        it; and `+NULL` is a DOUBLE."""
        negated = self._call(SCALARS["negate"], node, node.args)
        value = negated.args[0]
        is_kept = value.type == VOID or (isinstance(value, Literal) and value.type.is_integral)
        return Call("cast", (value,), negated.type) if is_kept else value

    def _between(self, node: Apply) -> Expr:
        operand, low, high = node.args
        value, least, most = self.bind(operand), self.bind(low), self.bind(high)
        self._spend(value, node, 1)
        above = self.typed(SCALARS[">="], node, (value, least), (operand, low))
        below = self.typed(SCALARS["<="], node, (value, most), (operand, high))
        return Call("and", (self._mirrored(above), self._mirrored(below)), BOOLEAN)

    def _spend(self, expr: Expr, node: Node, copies: int) -> None:
        """Forms that repeat an operand could grow without end when nested."""
        size = sum(1 for _ in islice(walk(expr), self.copies_left + 1))
        self.copies_left -= size * copies
        if self.copies_left < 0:
            raise self.error(
                "the expression grows too large when BETWEEN or CASE are written out",
                node,
                hint="split the query",
            )

    def _in(self, node: Apply) -> Expr:
        call = self._call(SCALARS["in"], node, node.args)
        needle, *choices = call.args
        if len({c.type for c in choices}) == 1 and all(
            isinstance(c, Literal) and c.value is not None for c in choices
        ):
            choices = sorted(set(choices), key=lambda c: c.value)  # type: ignore[union-attr, arg-type, return-value]
        return Call("in", (needle, *choices), call.type)

    def _case(self, node: Apply) -> Expr:
        return self._case_when(node, tuple([self.bind(arg) for arg in node.args]), node.args)

    def _case_when(self, node: Apply, args: tuple[Expr, ...], nodes: tuple[Node, ...]) -> Expr:
        if len(args) % 2 == 0:
            args = (*args, _NULL)
        return self.typed(SCALARS["case"], node, args, nodes)

    def _case_of(self, node: Apply) -> Expr:
        operand, *rest = node.args
        value = self.bind(operand)
        self._spend(value, node, len(rest) // 2)
        args = [self.bind(arg) for arg in rest]
        for index in range(0, len(args) - 1, 2):
            equal = self.typed(SCALARS["="], node, (value, args[index]), (operand, rest[index]))
            args[index] = self._mirrored(equal)
        return self._case_when(node, tuple(args), tuple(rest))

    def _if(self, node: Apply) -> Expr:
        if len(node.args) not in (2, 3):
            raise self.error("if takes 2 or 3 arguments", node, value=f"{len(node.args)} arguments")
        return self._case(node)

    def _nvl2(self, node: Apply) -> Expr:
        if len(node.args) != 3:
            raise self.error("nvl2 takes 3 arguments", node, value=f"{len(node.args)} arguments")
        first, *rest = [self.bind(arg) for arg in node.args]
        test = self.typed(SCALARS["is_not_null"], node, (first,))
        return self._case_when(node, (test, *rest), node.args)

    def _to_date(self, node: Apply) -> Expr:
        if len(node.args) != 1:
            raise self.error(
                "to_date takes 1 argument here",
                node,
                value=f"{len(node.args)} arguments",
                hint="formats are not available; CAST reads YYYY-MM-DD",
            )
        return self._cast("cast", node, DATE)

    def _cast(self, op: str, node: Apply, to: Type | None) -> Expr:
        assert to is not None
        arg = self.bind(node.args[0])
        if not rules.can_cast(arg.type, to):
            raise self.error(f"{arg.type} cannot be cast to {to}", node, value=arg.type)
        return Call(op, (arg,), to)

    # windows

    def _window(self, node: Apply) -> Expr:
        if self.inside:
            raise self.error(
                "window(…) cannot be inside an aggregate", node, value=f"{self.inside}(…)"
            )
        self.names.require_window(node, self.clause)
        return Bound("window")

    def _field(self, node: Apply) -> Expr:
        value = self.bind(node.args[0])
        which = node.to_field.lower()
        if value != Bound("window"):
            raise self.error("only a window has fields", node, value=node.to_field)
        if which not in ("start", "end"):
            raise self.error(
                "a window has no such field", node, value=node.to_field, choices=("start", "end")
            )
        return Bound(which)


Form = Callable[[ExpressionBinder, Apply], Expr]
_OPERATORS: dict[str, Form] = {
    **dict.fromkeys(_MIRRORED, ExpressionBinder._compare),
    "between": ExpressionBinder._between,
    "in": ExpressionBinder._in,
    "case": ExpressionBinder._case,
    "case_of": ExpressionBinder._case_of,
}
_REWRITES: dict[str, Form] = {
    "if": ExpressionBinder._if,
    "nvl2": ExpressionBinder._nvl2,
    "to_date": ExpressionBinder._to_date,
}
