"""Text becomes SQL in one place.  Names and strings with every odd character come out as they went
in."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace
from headrace.quoting import quote_name, quote_text
from headrace.runtime.family import CORRUPT
from headrace.runtime.sources import from_json_sql
from headrace.values import BIGINT, STRING, Field, Relation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(headrace.__file__).parent
# What is said to people: names of columns, messages.  And benchmarks, which write the SQL of their
# own workloads.
FOR_PEOPLE = ("sql/naming.py", "sql/literals.py", "sql/parse_core.py", "sql/parse_literal.py")
ODD = (
    "a\\'b",
    "it's",
    "a`b",
    'a"b',
    "a\\",
    "\\",
    "a b",
    "a\nb",
    "a\tb",
    "${x}",
    "$",
    "😀",
    "é\u0301",
    "a,b INT",
    "x) --",
    "\u2028",
    "\x01",
    "a.b",
    "1a",
    "\\u0041",
    "';DROP",
    "''",
    "``",
)


def quoted_by_hand(tree: ast.Module) -> Iterator[int]:
    """Lines where a value is put right behind a quote or a backquote, or where quotes are doubled
    or escaped."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for before, value in zip(node.values, node.values[1:], strict=False):
                if (
                    isinstance(before, ast.Constant)
                    and str(before.value).endswith(("'", "`"))
                    and _is_text(value)
                ):
                    yield node.lineno
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Add | ast.Mod)
            and _ends_quoted(node.left)
        ):
            yield node.lineno
        if isinstance(node, ast.Call) and _replaces_quotes(node):
            yield node.lineno


def _replaces_quotes(node: ast.Call) -> bool:
    what = (
        node.args[0]
        if node.args and isinstance(node.func, ast.Attribute) and node.func.attr == "replace"
        else None
    )
    return isinstance(what, ast.Constant) and what.value in ("'", "`", "\\")


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.FormattedValue) and value.conversion == -1


def _ends_quoted(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.endswith(("'", "`"))
    )


def test_there_is_one_place_that_quotes() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name == "quoting.py" or name in FOR_PEOPLE or name.startswith("bench/"):
            continue
        found += [f"{name}:{line}" for line in quoted_by_hand(ast.parse(path.read_text()))]
    assert not found, found


@pytest.mark.parametrize(
    "code",
    [
        "f\"a '{x}'\"",
        "f'`{x}`'",
        '"\'" + x',
        'x.replace("\'", "\'\'")',
        "x.replace('`', '``')",
        "\"a '%s'\" % x",
    ],
)
def test_other_ways_are_found(code: str) -> None:
    assert list(quoted_by_hand(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["f'a {x!r}'", "f'({x})'", "'a' + x", "x.replace('a', 'b')", "f'{quote_text(x)}'"]
)
def test_other_texts_are_left_alone(code: str) -> None:
    assert not list(quoted_by_hand(ast.parse(code)))


@pytest.mark.parametrize("text", ODD)
def test_texts_and_names_come_back(spark: SparkSession, text: str) -> None:
    spark.conf.set("spark.sql.variable.substitute", "false")  # as in the engine's own session
    frame = spark.sql(f"SELECT {quote_text(text)} AS {quote_name(text)}")
    assert frame.columns == [text]
    assert frame.collect()[0][0] == text


def test_columns_of_any_name_are_read_from_json(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.variable.substitute", "false")
    relation = Relation(
        "r",
        "kafka://h:1/t",
        tuple(Field(n, BIGINT if i % 2 else STRING) for i, n in enumerate(ODD)),
    )
    values = {n: i if i % 2 else f"v{i}" for i, n in enumerate(ODD)}
    frame = spark.createDataFrame([(json.dumps(values).encode(),), (b"no json",)], "value BINARY")
    good, bad = frame.selectExpr(f"{from_json_sql(relation)} AS r").select("r.*").collect()
    assert good.asDict() == {**values, CORRUPT: None}
    assert bad[CORRUPT] == "no json"
