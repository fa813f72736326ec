"""The name Spark gives to a column without an alias: `avg(price)`, `(price * 2)`, `count(1)`."""

from __future__ import annotations

from headrace.sql.syntax import Apply, Constant, Name, Node, Star

_CAPITAL = {
    "ceil",
    "floor",
    "sqrt",
    "exp",
    "log10",
    "power",
    "signum",
    "rlike",
    "regexp_like",
    "regexp",
}
_INFIX = {"+", "-", "*", "/", "%", "div", "=", "<", "<=", ">", ">=", "<=>", "and", "or"}
_DEFAULTS = {
    ("round", 1): ", 0",
    ("substr", 2): ", 2147483647",
    ("substring", 2): ", 2147483647",
    ("unix_timestamp", 1): ", yyyy-MM-dd HH:mm:ss",
    ("percentile", 2): ", 1",
    ("replace", 2): ", ",
    ("percentile_approx", 2): ", 10000",
    ("approx_percentile", 2): ", 10000",
}


def spark_name(node: Node) -> str:
    """The name of a whole select item; a cast of a column keeps the name of the column."""
    if isinstance(node, Name):
        return node.parts[-1]
    if isinstance(node, Apply) and node.op in ("cast", "try_cast") and not node.is_function:
        inner = node.args[0]
        if isinstance(inner, Name):
            return spark_name(inner)
    return _name(node)


def _name(node: Node) -> str:
    if isinstance(node, Constant):
        return node.shown
    if isinstance(node, Name):
        return node.parts[-1] if node.parts[0].lower() != "window" else ".".join(node.parts)
    if isinstance(node, Star):
        return "1"
    if node.is_function:
        return _function(node)
    args = [_name(arg) for arg in node.args]
    return _operator(node, args)


def _function(node: Apply) -> str:
    args = [_name(arg) for arg in node.args]
    op = node.op
    if op in ("isnull", "isnotnull"):
        return f"({args[0]} IS {'NOT ' if op == 'isnotnull' else ''}NULL)"
    if op == "window":
        return "window"
    word = op.upper() if op in _CAPITAL else "collect_list" if op == "array_agg" else op
    if op == "approx_count_distinct":  # its error does not show
        args = args[:1]
    inside = ", ".join(args) + _DEFAULTS.get((op, len(args)), "")
    distinct = "DISTINCT " if node.distinct else ""
    filtered = "" if node.filter is None else f" FILTER (WHERE {_name(node.filter)})"
    if op == "if":
        return f"(IF({inside}))"
    return f"{word}({distinct}{inside}){filtered}"


def _operator(node: Apply, args: list[str]) -> str:
    op = node.op
    if op == "<>":
        return f"(NOT ({args[0]} = {args[1]}))"
    if op in _INFIX:
        word = op.upper() if op in ("and", "or") else op
        return f"({args[0]} {word} {args[1]})"
    if op in ("cast", "try_cast"):
        return f"{op.upper()}({args[0]} AS {str(node.to).upper()})"
    if op in ("case", "case_of"):
        return _case(op, args)
    if op == "like":
        escape = f" ESCAPE '{args[2]}'" if len(args) == 3 else ""
        return f"{args[0]} LIKE {args[1]}{escape}"
    if op == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if op == "field":
        return f"{args[0]}.{node.to_field}"
    return _ONE_ARM.get(op, op + "({})").format(", ".join(args))


_ONE_ARM = {
    "not": "(NOT {})",
    "negate": "(- {})",
    "plus": "(+ {})",
    "is_null": "({} IS NULL)",
    "is_not_null": "({} IS NOT NULL)",
    "rlike": "RLIKE({})",
}


def _case(op: str, args: list[str]) -> str:
    operand = f"{args.pop(0)}" if op == "case_of" else ""
    arms = []
    while len(args) > 1:
        when, then = args.pop(0), args.pop(0)
        arms.append(f"WHEN {f'({operand} = {when})' if operand else when} THEN {then}")
    otherwise = f" ELSE {args[0]}" if args else ""
    return f"CASE {' '.join(arms)}{otherwise} END"
