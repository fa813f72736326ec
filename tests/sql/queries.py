"""Random queries as SQL text, typed so that most of them have a meaning."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Text = SearchStrategy[str]

_COLUMNS = {
    "int": ["qty", "trades.qty", "QTY", "`odd name`"],
    "bigint": ["big"],
    "smallint": ["small", "tiny"],
    "double": ["price", "trades.price"],
    "float": ["ratio"],
    "decimal": ["dec", "wide"],
    "string": ["symbol", "`symbol`"],
    "boolean": ["ok"],
    "timestamp": ["ts", "seen"],
    "date": ["day", "born"],
}
_CONSTANTS = {
    "int": ["0", "1", "-1", "3", "2147483647", "-2147483648", "- 2", "NULL"],
    "bigint": [
        "5L",
        "-9223372036854775808",
        "9223372036854775807",
        "12345678901",
        "-9223372036854775808L",
    ],
    "smallint": ["2S", "-32768S", "127Y", "- 128Y"],
    "double": [
        "1.5D",
        "1e3",
        "-0.5D",
        "0D",
        "-0.0D",
        "1.7976931348623157e308",
        "1e-400",
        "5e-324D",
        "-0e0",
    ],
    "float": ["1.5F", "-0.0F", "3.4028234663852886E38F", "1e-50F", "16777217F", "1.1F"],
    "decimal": [
        "2.5",
        "0.05",
        "-1.0",
        "100.00",
        "7BD",
        "0e5BD",
        "-0BD",
        "1e37BD",
        "1e-38BD",
        "9" * 38,
        "9223372036854775808",
    ],
    "string": [
        "'ab'",
        "''",
        "'it''s'",
        "'a\\nb'",
        "'${env:HOME}'",
        '"x"',
        "'\\u00e9'",
        "r'a\\b'",
        "'😀'",
        "'\\0'",
        "'\\377'",
        "'\\101'",
        "'\\U0001F600'",
        "'\\ud83d\\ude00'",
        "R'\\n'",
        "'a\\\\%'",
        "'\u2028'",
        "'é\u0301'",
    ],
    "boolean": ["TRUE", "false"],
    "timestamp": [
        "TIMESTAMP '2024-01-01 00:30:00'",
        "TIMESTAMP '2024-01-01 00:30:00.25'",
        "TIMESTAMP '0001-01-01 00:00:00'",
        "TIMESTAMP '9999-12-31 23:59:59.999999'",
        "TIMESTAMP_LTZ '1969-12-31 23:59:59.5'",
    ],
    "date": ["DATE '2024-01-01'", "DATE '0001-01-01'", "DATE '9999-12-31'", "DATE '1582-10-10'"],
}
NUMBERS = ("int", "bigint", "smallint", "double", "float", "decimal")
KINDS = tuple(_COLUMNS)


@cache
def leaf(kind: str) -> Text:
    return st.sampled_from([*_COLUMNS[kind] * 2, *_CONSTANTS[kind]])


@cache
def number(depth: int) -> Text:
    return st.sampled_from(NUMBERS).flatmap(lambda kind: expression(kind, depth))


@cache
def anything(depth: int) -> Text:
    return st.sampled_from(KINDS).flatmap(lambda kind: expression(kind, depth))


def _form(template: str, *parts: Text) -> Text:
    return st.tuples(*parts).map(lambda texts: template.format(*texts))


@cache
def expression(kind: str, depth: int) -> Text:
    """An expression of about this type (numbers may widen)."""
    if depth == 0:
        return leaf(kind)
    return st.one_of(leaf(kind), _choice(kind, depth - 1), *_forms(kind, depth - 1))


@cache
def _choice(kind: str, depth: int) -> Text:
    one, condition = expression(kind, depth), expression("boolean", depth)
    return st.one_of(
        _form("CASE WHEN {} THEN {} ELSE {} END", condition, one, one),
        _form("CASE {} WHEN {} THEN {} END", number(depth), number(depth), one),
        _form("IF({}, {}, {})", condition, one, one),
        _form("coalesce({}, {})", one, one),
        _form("nvl({}, {})", one, one),
        _form("nullif({}, {})", one, one),
        _form("greatest({}, {})", one, one),
        _form("({})", one),
    )


def _forms(kind: str, depth: int) -> list[Text]:
    if kind == "boolean":
        return _conditions(depth)
    if kind == "string":
        return _texts(depth)
    if kind in ("timestamp", "date"):
        return _times(kind, depth)
    return _numbers(kind, depth)


def _numbers(kind: str, depth: int) -> list[Text]:
    one, other = expression(kind, depth), number(depth)
    forms = [_form(f"{{}} {op} {{}}", one, other) for op in ("+", "-", "*", "/", "%")]
    forms += [_form(f"({op} {{}})", one) for op in ("-", "+")]
    forms += [
        _form(f"{name}({{}})", one)
        for name in ("abs", "ceil", "floor", "round", "sign", "sqrt", "exp", "ln")
    ]
    forms += [
        _form("round({}, 1)", one),
        _form("pmod({}, {})", one, other),
        _form("power({}, 2)", one),
    ]
    forms += [_form("try_divide({}, {})", one, other), _form("CAST({} AS DECIMAL(12,3))", one)]
    if kind in ("int", "bigint"):
        forms += [
            _form("{} div {}", one, expression("smallint", depth)),
            _form("length({})", expression("string", depth)),
            _form("hour({})", expression("timestamp", depth)),
            _form("year({})", expression("date", depth)),
            _form("unix_timestamp({})", expression("timestamp", depth)),
            _form("hash({})", anything(depth)),
            _form("CAST({} AS INT)", number(depth)),
            _form("TRY_CAST({} AS BIGINT)", expression("string", depth)),
            _form("datediff({}, {})", expression("date", depth), expression("date", depth)),
        ]
    return forms


_LIKES = (
    "'%!_%' ESCAPE '!'",
    "'%a%b%a%'",
    "'_%b%_'",
    "'%a%b%'",
    "'%😀%_'",
    "'%\\\\%%_'",
    "'A%_%B'",
    "'%%'",
    "''",
    "'%!%%!!%a' ESCAPE '!'",
    "'_'",
    "'%a__%b'",
)
# Braces are doubled: `_form` fills templates.
_REGEXES = (
    "'^[a-z]+b?$'",
    "'.*a.*b.*'",
    "'(a|ab)(b|bc)'",
    "'[😀-😎]'",
    "'^.{{2}}$'",
    "'[^a-c%]'",
    "''",
    "'\\\\w+$'",
    "'(?:ab)+x?'",
    "'a{{0,9}}b'",
    "'\\\\bA'",
)


def _conditions(depth: int) -> list[Text]:
    one = expression("boolean", depth)
    words, value = expression("string", depth), anything(depth)
    forms = [_form(f"({{}} {op} {{}})", one, one) for op in ("AND", "OR")]
    forms += [
        _form("(NOT {})", one),
        _form("({} IS NULL)", value),
        _form("({} IS NOT NULL)", value),
        _form("({} IS TRUE)", one),
        _form("({} IS NOT DISTINCT FROM {})", words, words),
    ]
    forms += [
        _form(f"({{}} {op} {{}})", number(depth), number(depth))
        for op in ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
    ]
    forms += [_form(f"({{}} {op} {{}})", words, words) for op in ("=", "<", "<=>")]
    forms += [
        _form("({} BETWEEN {} AND {})", number(depth), number(depth), number(depth)),
        _form("({} NOT IN ({}, {}))", number(depth), number(depth), number(depth)),
        _form("({} IN (3, 1, 2))", number(depth)),
        _form("({} IN ('ab', {}))", words, words),
    ]
    forms += [_form(f"({{}} {op} 'a%')", words) for op in ("LIKE", "ILIKE", "NOT LIKE")]
    forms += [
        _form(f"({{}} {op} {pattern})", words) for op in ("LIKE", "ILIKE") for pattern in _LIKES
    ]
    forms += [_form(f"({{}} RLIKE {pattern})", words) for pattern in _REGEXES]
    forms += [
        _form(f"{name}({{}}, {{}})", words, words)
        for name in ("startswith", "endswith", "contains")
    ]
    forms += [
        _form("({} > '2024-01-01 00:30:00')", expression("timestamp", depth)),
        _form("({} <= {})", expression("date", depth), expression("timestamp", depth)),
        _form("isnan({})", expression("double", depth)),
    ]
    return forms


def _texts(depth: int) -> list[Text]:
    one = expression("string", depth)
    forms = [_form(f"{name}({{}})", one) for name in ("upper", "lower", "trim", "ltrim", "rtrim")]
    return [
        *forms,
        _form("({} || {})", one, one),
        _form("concat({}, {})", one, one),
        _form("substring({}, 1, 2)", one),
        _form("left({}, {})", one, leaf("smallint")),
        _form("replace({}, 'a', {})", one, one),
        _form("CAST({} AS STRING)", anything(depth)),
    ]


_INTERVALS = (
    "INTERVAL 5 MINUTES",
    "INTERVAL '1 hour 30 minutes'",
    "- INTERVAL '1' SECOND",
    "INTERVAL -'2' DAY '25' HOUR",
    "- - INTERVAL '-1.5' SECOND",
    "INTERVAL 3660000 DAYS",
    "(- INTERVAL '1 day -30 hours')",
)


def _times(kind: str, depth: int) -> list[Text]:
    one = expression(kind, depth)
    if kind == "date":
        return [
            _form("({} + 1)", one),
            _form("date_sub({}, {})", one, leaf("smallint")),
            _form("to_date({})", expression("timestamp", depth)),
        ]
    return [
        *(_form(f"({{}} {op} {interval})", one) for op in "+-" for interval in _INTERVALS),
        _form("date_trunc('hour', {})", one),
        _form("CAST({} AS TIMESTAMP)", expression("date", depth)),
    ]


@cache
def stateless(depth: int = 2) -> Text:
    """SELECT of a few expressions, perhaps with WHERE."""
    items = st.lists(anything(depth), min_size=1, max_size=4).map(
        lambda texts: ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
    )
    where = st.one_of(
        st.just(""), expression("boolean", depth).map(lambda text: f" WHERE TRUE AND {text}")
    )
    return _form("SELECT {} FROM trades{}", items, where)


@cache
def _aggregate() -> Text:
    forms = [
        _form(f"{name}({{}})", number(1))
        for name in ("sum", "avg", "mean", "stddev", "var_pop", "count", "min", "max")
    ]
    forms += [_form(f"{name}({{}})", anything(1)) for name in ("count", "min", "max")]
    forms += [
        st.just("count(*)"),
        st.just("count(1)"),
        _form("count(DISTINCT {})", anything(0)),
        _form("sum({}) FILTER (WHERE {})", number(0), expression("boolean", 1)),
        _form("count(*) FILTER (WHERE {})", expression("boolean", 1)),
        _form("count({}, {})", anything(0), anything(0)),
        _form("count_if({})", expression("boolean", 1)),
        _form("bool_or({})", expression("boolean", 1)),
    ]
    return st.one_of(*forms)


_WINDOWS = (
    "'1 hour'",
    "'1 hour', '20 minutes'",
    "'90 minutes', '30 minutes', '10 minutes'",
    "'1 day', '12 hours', '-1 hour'",
)


@st.composite
def grouped(draw: st.DrawFn) -> str:
    """GROUP BY of keys and perhaps a window; expressions over keys and aggregates; perhaps
    HAVING."""
    keys = draw(
        st.lists(
            st.sampled_from(("symbol", "upper(symbol)", "qty % 2", "ok", "CAST(ts AS DATE)")),
            max_size=2,
            unique=True,
        )
    )
    window = draw(st.one_of(st.none(), st.sampled_from(_WINDOWS)))
    items = [*keys, *draw(st.lists(_aggregate(), min_size=1, max_size=3))]
    items += [f"CASE WHEN count(*) > 1 THEN {draw(_aggregate())} END", "count(*) * 2 + 1"]
    if window is not None:
        items += draw(
            st.sampled_from(
                (["window.start"], ["window", "window.end"], [f"window(ts, {window})"], [])
            )
        )
    select = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
    where = draw(
        st.sampled_from(("", " WHERE qty > 0", " WHERE symbol IS NOT NULL AND price < 100"))
    )
    groups = [*keys, *([f"window(ts, {window})"] if window else [])]
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    having = draw(
        st.sampled_from(
            (
                "",
                " HAVING count(*) > 0",
                " HAVING max(qty) IS NOT NULL",
                f" HAVING c{len(keys)} IS NOT NULL",
            )
        )
    )
    return f"SELECT {select} FROM trades{where}{by}{having}"
