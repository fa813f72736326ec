"""The allow-list: every operator, function and aggregate a query may use.  What is not here never
reaches Spark.

One row each: canonical name, number of arguments, type rule, the Spark SQL it becomes ('' is
`name(args)`), and whether its evaluation may raise under ANSI mode (an overflow, a division by
zero, a bad cast).  Functions are deterministic in their arguments: nothing here reads a clock, a
file, a session or a random number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.sql import aggregate_rules, rules
from headrace.sql.tree import Aggregate, Call, Expr, Literal, walk
from headrace.values import Type

MANY = 1_000
Rule = Callable[[Sequence[Expr]], Type]
Risk = Callable[[Call | Aggregate], bool]


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    least: int
    most: int
    rule: Rule
    sql: str = ""
    risk: Risk | None = None
    callable: bool = True

    def may_raise(self, node: Call | Aggregate) -> bool:
        return self.risk is not None and self.risk(node)


def _overflows(node: Call | Aggregate) -> bool:
    """Exact numbers and times overflow; doubles go to infinity."""
    return not node.type.is_fractional


def _divides(node: Call | Aggregate) -> bool:
    divisor = node.args[1]
    return (
        not (isinstance(divisor, Literal) and _is_not_zero(divisor)) or node.type.name == "decimal"
    )


def _is_not_zero(literal: Literal) -> bool:
    """As Spark has it: 1e-50F is zero in single precision."""
    if not isinstance(literal.value, int | float):
        return False
    is_single = literal.type.name == "float"
    return (
        struct.unpack("<f", struct.pack("<f", literal.value))[0] if is_single else literal.value
    ) != 0


def _always(node: Call | Aggregate) -> bool:
    return True


def _of_pattern(node: Call | Aggregate) -> bool:
    """A constant pattern was checked when the query was bound."""
    return not isinstance(node.args[1], Literal)


def _operator(name: str, count: int, rule: Rule, sql: str, risk: Risk | None = None) -> Function:
    return Function(name, count, count, rule, sql, risk, callable=False)


SCALARS: dict[str, Function] = {
    f.name: f
    for f in (
        _operator("+", 2, rules.add, "({} + {})", _overflows),
        _operator("-", 2, rules.subtract, "({} - {})", _overflows),
        _operator("*", 2, rules.multiply, "({} * {})", _overflows),
        _operator("/", 2, rules.divide, "({} / {})", _divides),
        _operator("%", 2, rules.remainder, "({} % {})", _divides),
        _operator("div", 2, rules.whole_division, "({} div {})", _always),
        _operator("negate", 1, rules.same_number, "(- {})", _overflows),
        _operator("=", 2, rules.compare, "({} = {})"),
        _operator("<>", 2, rules.compare, "({} <> {})"),
        _operator("<", 2, rules.compare, "({} < {})"),
        _operator("<=", 2, rules.compare, "({} <= {})"),
        _operator(">", 2, rules.compare, "({} > {})"),
        _operator(">=", 2, rules.compare, "({} >= {})"),
        _operator("<=>", 2, rules.compare, "({} <=> {})"),
        _operator("and", 2, rules.logic, "({} AND {})"),
        _operator("or", 2, rules.logic, "({} OR {})"),
        _operator("not", 1, rules.logic, "(NOT {})"),
        _operator("is_null", 1, rules.test_any, "({} IS NULL)"),
        _operator("is_not_null", 1, rules.test_any, "({} IS NOT NULL)"),
        Function("in", 2, 10 * MANY * MANY, rules.compare, callable=False),
        Function("like", 2, 3, rules.match, risk=_of_pattern, callable=False),
        Function("ilike", 2, 3, rules.match, risk=_of_pattern, callable=False),
        Function("rlike", 2, 2, rules.match, "({} RLIKE {})", risk=_of_pattern, callable=False),
        Function("case", 3, 10 * MANY * MANY, rules.case, callable=False),
        Function(
            "filtered", 2, 2, rules.same, "(CASE WHEN {} THEN {} ELSE NULL END)", callable=False
        ),
        Function(
            "cell", 1, 1, aggregate_rules.count, callable=False
        ),  # only a family makes it: where a value lies
        Function("cast", 1, 1, rules.same, risk=rules.cast_may_raise, callable=False),
        Function("try_cast", 1, 1, rules.same, callable=False),
        Function("coalesce", 1, MANY, rules.common),
        Function("nullif", 2, 2, rules.nullif),
        Function("greatest", 2, MANY, rules.greatest),
        Function("least", 2, MANY, rules.greatest),
        Function("abs", 1, 1, rules.same_number, risk=_overflows),
        Function("ceil", 1, 1, rules.ceil, risk=_overflows),
        Function("floor", 1, 1, rules.ceil, risk=_overflows),
        Function("round", 1, 2, rules.round_to, risk=_overflows),
        Function("sign", 1, 1, rules.real),
        Function("sqrt", 1, 1, rules.real),
        Function("exp", 1, 1, rules.real),
        Function("ln", 1, 1, rules.real),
        Function("log10", 1, 1, rules.real),
        Function("power", 2, 2, rules.real),
        Function("pmod", 2, 2, rules.remainder, risk=_divides),
        Function("try_divide", 2, 2, rules.divide),
        Function("isnan", 1, 1, rules.is_nan),
        Function("upper", 1, 1, rules.text),
        Function("lower", 1, 1, rules.text),
        Function("trim", 1, 1, rules.text),
        Function("ltrim", 1, 1, rules.text),
        Function("rtrim", 1, 1, rules.text),
        Function("length", 1, 1, rules.text_length),
        Function("substring", 2, 3, rules.text_slice),
        Function("left", 2, 2, rules.text_slice),
        Function("right", 2, 2, rules.text_slice),
        Function("concat", 1, MANY, rules.text),
        Function("replace", 2, 3, rules.text),
        Function("startswith", 2, 2, rules.text_test),
        Function("endswith", 2, 2, rules.text_test),
        Function("contains", 2, 2, rules.text_test),
        Function("year", 1, 1, rules.date_part),
        Function("quarter", 1, 1, rules.date_part),
        Function("month", 1, 1, rules.date_part),
        Function("weekofyear", 1, 1, rules.date_part),
        Function("dayofyear", 1, 1, rules.date_part),
        Function("dayofweek", 1, 1, rules.date_part),
        Function("day", 1, 1, rules.date_part),
        Function("hour", 1, 1, rules.clock_part),
        Function("minute", 1, 1, rules.clock_part),
        Function("second", 1, 1, rules.clock_part),
        Function("date_trunc", 2, 2, rules.date_trunc),
        Function("date_add", 2, 2, rules.date_shift, risk=_always),
        Function("date_sub", 2, 2, rules.date_shift, risk=_always),
        Function("datediff", 2, 2, rules.date_difference),
        Function("unix_timestamp", 1, 1, rules.epoch_seconds),
        Function("hash", 1, MANY, rules.hashed),
    )
}

AGGREGATES: dict[str, Function] = {
    f.name: f
    for f in (
        Function("count", 1, MANY, aggregate_rules.count),
        Function("sum", 1, 1, aggregate_rules.total, risk=_overflows),
        Function("avg", 1, 1, aggregate_rules.average, risk=_overflows),
        Function("min", 1, 1, aggregate_rules.extreme),
        Function("max", 1, 1, aggregate_rules.extreme),
        Function("stddev_samp", 1, 1, rules.real),
        Function("stddev_pop", 1, 1, rules.real),
        Function("var_samp", 1, 1, rules.real),
        Function("var_pop", 1, 1, rules.real),
        Function("collect_list", 1, 1, aggregate_rules.collected),
        Function("collect_set", 1, 1, aggregate_rules.collected),
        Function("first", 1, 1, aggregate_rules.any_same),
        Function("last", 1, 1, aggregate_rules.any_same),
        Function("any_value", 1, 1, aggregate_rules.any_same),
        Function("percentile", 2, 2, aggregate_rules.percentile),
        Function("percentile_approx", 2, 3, aggregate_rules.percentile_approx),
        Function("median", 1, 1, rules.real),
        Function("mode", 1, 1, aggregate_rules.extreme),
        Function("approx_count_distinct", 1, 2, aggregate_rules.approx_distinct),
        Function("bool_and", 1, 1, rules.logic),
        Function("bool_or", 1, 1, rules.logic),
        Function("corr", 2, 2, rules.real),
        Function("covar_pop", 2, 2, rules.real),
        Function("covar_samp", 2, 2, rules.real),
        Function("skewness", 1, 1, rules.real),
        Function("kurtosis", 1, 1, rules.real),
        Function("min_by", 2, 2, aggregate_rules.by_other),
        Function("max_by", 2, 2, aggregate_rules.by_other),
    )
}

# Other names Spark knows them by.  Names that stand for a whole expression (if, nvl2, …) are in
# bind_expr.REWRITES.
ALIASES = {
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "mod": "%",
    "ceiling": "ceil",
    "signum": "sign",
    "pow": "power",
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "dayofmonth": "day",
    "date_diff": "datediff",
    "isnull": "is_null",
    "isnotnull": "is_not_null",
    "dateadd": "date_add",
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "approx_percentile": "percentile_approx",
    "first_value": "first",
    "last_value": "last",
    "array_agg": "collect_list",
    "rlike": "rlike",
    "regexp_like": "rlike",
    "regexp": "rlike",
}

# Aggregates for which the row that comes first matters; DISTINCT changes nothing; only the first
# argument is data.
ORDERED = frozenset({"first", "last", "any_value"})
INDIFFERENT = frozenset(
    {"min", "max", "bool_and", "bool_or", "collect_set", "approx_count_distinct"}
)
PARAMETRIC = frozenset({"percentile", "percentile_approx", "approx_count_distinct"})


def function_names() -> tuple[str, ...]:
    """Every name that may be called, for error messages."""
    called = [f.name for f in (*SCALARS.values(), *AGGREGATES.values()) if f.callable]
    return (*called, *ALIASES, "if", "to_date", "count_if", "window")


def lookup(written: str) -> Function | None:
    """The function called by this name, if it is on the list."""
    alias = ALIASES.get(written)
    if alias is not None:
        return SCALARS.get(alias) or AGGREGATES.get(alias)
    found = SCALARS.get(written) or AGGREGATES.get(written)
    return found if found is not None and found.callable else None


def may_raise(expr: Expr) -> bool:
    """May evaluating this fail on some row?  Then it must not run in the same Spark job as other
    queries' work."""
    for node in walk(expr):
        table = AGGREGATES if isinstance(node, Aggregate) else SCALARS
        if isinstance(node, Call | Aggregate) and table[node.op].may_raise(node):
            return True
    return False
