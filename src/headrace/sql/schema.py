"""Schemas as text: "symbol STRING, price DOUBLE, qty INT, ts TIMESTAMP" → fields."""

from __future__ import annotations

from headrace.config import Config
from headrace.errors import CatalogError, SQLError
from headrace.sql.duration import parse_duration_us
from headrace.sql.parse_core import Cursor
from headrace.sql.text import tokenize
from headrace.values import Field

__all__ = ["parse_duration_us", "parse_schema"]


def parse_schema(ddl: str) -> tuple[Field, ...]:
    """The fields of a stream or table.  Names are compared without case, as Spark does."""
    try:
        cursor = Cursor(ddl, tokenize(ddl, Config()), Config())
        fields = field_list(cursor)
        cursor.expect_end()
    except SQLError as error:
        raise CatalogError(
            f"schema: {error.what}", value=error.value if error.value is not None else ddl, choices=error.choices,
            hint=error.hint or 'write it as "symbol STRING, price DOUBLE, ts TIMESTAMP"',
        ) from error
    return fields


def field_list(cursor: Cursor) -> tuple[Field, ...]:
    """`name TYPE [NOT NULL], …` up to what is not a comma; stops before PRIMARY KEY."""
    fields: list[Field] = []
    seen: set[str] = set()
    while True:
        token = cursor.token
        name = cursor.name("a column name")
        if name.lower() in seen:
            raise cursor.error("the column is there twice", token, value=name)
        if not name:
            raise cursor.error("a column needs a name", token)
        seen.add(name.lower())
        cursor.take(":")
        fields.append(Field(name, cursor.type_name()))
        if cursor.take("NOT"):
            cursor.expect("NULL")
        if not cursor.at(",") or cursor.peek(1).upper == "PRIMARY":
            return tuple(fields)
        cursor.expect(",")
