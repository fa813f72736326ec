"""Schemas as text: "symbol STRING, price DOUBLE, qty INT, ts TIMESTAMP" → fields."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.config import Config
from headrace.errors import CatalogError, SQLError
from headrace.sql.duration import parse_duration_us
from headrace.sql.parse_core import Cursor
from headrace.sql.text import tokenize
from headrace.values import BOOLEAN, Field

OURS = "_headrace_"
__all__ = ["deleted_column", "parse_duration_us", "parse_schema"]


def parse_schema(ddl: str) -> tuple[Field, ...]:
    """The fields of a stream or table.  Names are compared without case, as Spark does."""
    try:
        cursor = Cursor(ddl, tokenize(ddl, Config()), Config())
        fields = field_list(cursor)
        cursor.expect_end()
    except SQLError as error:
        raise CatalogError(
            f"schema: {error.what}",
            value=error.value if error.value is not None else ddl,
            choices=error.choices,
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
        if name.lower().startswith(OURS):
            raise cursor.error(
                "this column's name is one of ours", token, value=name, hint=f"not {OURS}…"
            )
        seen.add(name.lower())
        cursor.take(":")
        fields.append(Field(name, cursor.type_name()))
        if cursor.take("NOT"):
            cursor.expect("NULL")
        if not cursor.at(",") or cursor.peek(1).upper == "PRIMARY":
            return tuple(fields)
        cursor.expect(",")


def deleted_column(name: str, fields: Sequence[Field], key: Sequence[str]) -> str:
    """The column by which rows of a table delete their keys, as the schema spells it: a BOOLEAN
    outside the key."""
    keys = {k.lower() for k in key}
    fit = [f.name for f in fields if f.type == BOOLEAN and f.name.lower() not in keys]
    found = next((f for f in fields if f.name.lower() == name.lower()), None)
    if found is not None and found.name in fit:
        return found.name
    if found is None:
        what, value = "the column that deletes is not a column of the table", name
    elif found.type != BOOLEAN:
        what, value = "the column that deletes must be BOOLEAN", f"{found.name} {found.type}"
    else:
        what, value = "the column that deletes must not be of the key", found.name
    raise CatalogError(
        what,
        value=value,
        choices=fit,
        hint="name a BOOLEAN column outside the key; the schema must have one, e.g. gone BOOLEAN",
    )
