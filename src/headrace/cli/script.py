"""Carrying out statements: those of a `.sql` file, and those typed at the prompt.

A file may be run again: what it declares and the home has already is left as it is.  Queries that
follow one another are registered together, in one append to the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import typer

from headrace.cli.show import answers_table, console, note, several
from headrace.errors import CatalogError

if TYPE_CHECKING:
    from headrace.engine import Engine
    from headrace.sql.statements import Statement

ROWS_SHOWN = 20


class Script:
    """Statements against one engine.  `run` drains the engine's streams, showing progress."""

    def __init__(self, engine: Engine, run: Callable[[], None]) -> None:
        self.engine = engine
        self._run = run
        self._pending: dict[str, str] = {}

    def carry_out(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self._carry_out(statement)
        self._flush()

    def _carry_out(self, statement: Statement) -> None:
        from headrace.sql import statements as kinds

        if isinstance(statement, kinds.CreateQuery):
            self._declare(statement.name, statement.sql)
            return
        self._flush()
        match statement:
            case kinds.CreateStream(name=name, source=source, schema=schema, time=time, late=late):
                self.engine.create_stream(name, source, schema=schema, time=time, late=late)
            case kinds.CreateTable(
                name=name, source=source, schema=schema, key=key, deleted=deleted
            ):
                self.engine.create_table(name, source, schema=schema, key=key, deleted=deleted)
            case kinds.DropQuery(name=name):
                self.engine.drop(name)
            case kinds.Select(sql=sql):
                self._select(sql)
            case kinds.Explain(target=target):
                typer.echo(self.engine.explain(target).rstrip("\n"))
            case kinds.ShowQueries():
                self._show_queries()

    def _declare(self, name: str, sql: str) -> None:
        if name in self._pending and not same_sql(self._pending[name], sql):
            raise CatalogError(
                "the script declares this query twice", value=name, hint="give them different names"
            )
        self._pending[name] = sql

    def _flush(self) -> None:
        if self._pending:
            register(self.engine, self._pending)
            self._pending = {}

    def _select(self, sql: str) -> None:
        """A SELECT is a query for a moment: added, run, shown, dropped."""
        from headrace.evaluation.python_rows import python_rows

        name = _free_name({info.name for info in self.engine.queries()})
        self.engine.add(sql, name=name)
        try:
            self._run()
            found = self.engine.read(name)
        finally:
            self.engine.drop(name)
        if not found.num_rows:
            note(
                "no answers: this query saw no rows, or no window has ended; CREATE QUERY name AS … keeps one standing"
            )
            return
        console().print(answers_table(python_rows(found.slice(0, ROWS_SHOWN)), found.column_names))
        if found.num_rows > ROWS_SHOWN:
            note(f"first {ROWS_SHOWN} of {several(found.num_rows, 'answer')}")

    def _show_queries(self) -> None:
        from headrace.cli.queries import show_queries

        show_queries(self.engine.queries())


def register(engine: Engine, queries: Mapping[str, str]) -> list[str]:
    """Add those the home does not have yet.  The same name with another text is an error."""
    known = {info.name: info.sql for info in engine.queries()}
    for name in queries.keys() & known.keys():
        if not same_sql(queries[name], known[name]):
            raise CatalogError(
                "a query of this name exists with another text",
                value=f"{name}: {queries[name]}",
                choices=(known[name],),
                hint=f"choose another name, or drop it first: headrace drop {name}",
                code="NAME_TAKEN",
            )
    fresh = {name: sql for name, sql in queries.items() if name not in known}
    return engine.add_many(fresh) if fresh else []


def same_sql(a: str, b: str) -> bool:
    """Whether two texts differ in layout only."""
    return a == b or _tokens(a) == _tokens(b)


def _tokens(sql: str) -> list[tuple[str, str]]:
    from headrace.config import Config
    from headrace.sql.text import tokenize

    tokens = [(token.kind, token.text) for token in tokenize(sql, Config.from_environment())]
    return [token for token in tokens if token != ("op", ";")]


def _free_name(taken: set[str]) -> str:
    number = 1
    while f"select_{number}" in taken:
        number += 1
    return f"select_{number}"
