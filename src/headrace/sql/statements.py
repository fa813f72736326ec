"""Statements of `.sql` files and of the prompt: declare streams and tables, add, drop, show and
explain queries.

    CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP)
        USING parquet
        OPTIONS (path 'data/trades', time 'ts', late '10 seconds', maxFilesPerTrigger '1');
    CREATE TABLE stock (symbol STRING, level INT, gone BOOLEAN, PRIMARY KEY (symbol))
        USING 'kafka://localhost:9092/stock' OPTIONS (deleted 'gone');
    CREATE QUERY hourly AS SELECT …;
    DROP QUERY hourly;  EXPLAIN [name];  SHOW QUERIES;  SELECT …;

Only the shape is checked here; names and types are checked when a statement is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from headrace.config import Config
from headrace.errors import HeadraceError, near
from headrace.sql.duration import parse_duration_us
from headrace.sql.parse_core import Cursor
from headrace.sql.parse_select import SelectParser
from headrace.sql.schema import deleted_column, field_list
from headrace.sql.text import Token, tokenize
from headrace.values import Field, Relation

SCRIPT_FACTOR = 1_000  # a script may be this many times as long as one query
FILE_KINDS = ("parquet", "json", "csv")
KINDS = (*FILE_KINDS, "rate", "kafka")
_BEGINNINGS = (
    "CREATE STREAM",
    "CREATE TABLE",
    "CREATE QUERY",
    "DROP QUERY",
    "EXPLAIN",
    "SHOW QUERIES",
    "SELECT",
)


@dataclass(frozen=True, slots=True)
class CreateStream:
    name: str
    source: str
    schema: str
    time: str
    late: str = "0 seconds"


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`key` is one column, or several with commas; `deleted` the column that takes a key out."""

    name: str
    source: str
    schema: str
    key: str
    deleted: str | None = None


@dataclass(frozen=True, slots=True)
class CreateQuery:
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class DropQuery:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    sql: str


@dataclass(frozen=True, slots=True)
class Explain:
    """`target` is the name of a query; None is the whole plan."""

    target: str | None = None


@dataclass(frozen=True, slots=True)
class ShowQueries:
    pass


Statement = CreateStream | CreateTable | CreateQuery | DropQuery | Select | Explain | ShowQueries


def parse_script(text: str, config: Config) -> tuple[Statement, ...]:
    """The statements of a text, in order.  A SQLError points into the whole text."""
    if not text.strip():
        return ()
    tokens = tokenize(text, replace(config, sql_length_max=config.sql_length_max * SCRIPT_FACTOR))
    statements: list[Statement] = []
    start = 0
    for index, token in enumerate(tokens):
        if token.upper != ";" and token.kind != "end":
            continue
        if index > start:
            end = Token("end", "", token.at, token.at)
            statements.append(
                _StatementParser(text, [*tokens[start:index], end], config).statement()
            )
        start = index + 1
    return tuple(statements)


class _StatementParser(Cursor):
    """Reads one statement; the last token is its end."""

    def statement(self) -> Statement:
        if self.at("SELECT"):
            return Select(self._select())
        if self.take("CREATE"):
            return self._create()
        if self.take("DROP"):
            found: Statement = self._drop()
        elif self.take("EXPLAIN"):
            found = Explain(None if self.token.kind == "end" else self.name("the name of a query"))
        elif self.take("SHOW", "QUERIES"):
            found = ShowQueries()
        else:
            raise self.error("unknown statement", value=self.token.shown, choices=_BEGINNINGS)
        self.expect_end()
        return found

    def _create(self) -> Statement:
        kind = self.token
        if self.at("MATERIALIZED"):
            raise self.error(
                "materialized views are not available yet",
                value="CREATE MATERIALIZED VIEW",
                hint="CREATE QUERY name AS SELECT … keeps its answers too",
            )
        if self.take("STREAM"):
            return self._relation(is_table=False)
        if self.take("TABLE"):
            return self._relation(is_table=True)
        if self.take("QUERY"):
            name = self._own_name("query")
            self.expect("AS")
            return CreateQuery(name, self._select())
        raise self.error(
            "CREATE what?", kind, value=kind.shown, choices=("STREAM", "TABLE", "QUERY")
        )

    def _drop(self) -> DropQuery:
        if not self.take("QUERY"):
            raise self.error(
                "DROP what?",
                value=self.token.shown,
                choices=("QUERY",),
                hint="streams and tables stay as long as their home",
            )
        return DropQuery(self.name("the name of a query"))

    def _own_name(self, what: str) -> str:
        token = self.token
        name = self.name(f"the name of the {what}")
        if not name or len(name) > self.config.name_length_max:
            raise self.error(
                f"a name has 1 to {self.config.name_length_max} characters", token, value=name
            )
        return name

    def _select(self) -> str:
        """The text of the SELECT that is left; its shape is checked now so that errors point into
        the script."""
        first = self.token
        SelectParser(self.sql, self.tokens[self.index :], self.config).statement()
        return self.sql[first.at : self.tokens[-2].end]

    # streams and tables

    def _relation(self, is_table: bool) -> Statement:
        begin = self.token
        name = self._own_name("table" if is_table else "stream")
        self.expect("(")
        fields = field_list(self)
        keys = self._primary_key() if self.take(",") else ()
        self.expect(")")
        keys = keys or (self._primary_key() if self.at("PRIMARY") else ())
        self.expect("USING")
        kind = self.next()
        options = self._options() if self.take("OPTIONS") else {}
        self.expect_end()
        schema = Relation(name, "", fields).ddl()
        if is_table:
            keys = keys or tuple(k for k in [options.pop("key", "")] if k)
            deleted = options.pop("deleted", None)
            key = self._key(keys, fields, begin)
            if deleted is not None:
                self._check_deleted(deleted, fields, keys, begin)
            return CreateTable(name, self._source(kind, options), schema, key, deleted)
        if keys:
            raise self.error(
                "a stream has no PRIMARY KEY", begin, value=", ".join(keys), hint="use CREATE TABLE"
            )
        time, late = options.pop("time", ""), options.pop("late", "0 seconds")
        self._check_time(time, late, fields, begin)
        return CreateStream(name, self._source(kind, options), schema, time, late)

    def _primary_key(self) -> tuple[str, ...]:
        self.expect("PRIMARY")
        self.expect("KEY")
        self.expect("(")
        keys = [self.name("a column of the key")]
        while self.take(","):
            keys.append(self.name("a column of the key"))
        self.expect(")")
        return tuple(keys)

    def _key(self, keys: tuple[str, ...], fields: tuple[Field, ...], begin: Token) -> str:
        names = [f.name for f in fields]
        if not keys:
            raise self.error(
                "a table needs a key",
                begin,
                hint="write PRIMARY KEY (column) after the columns",
                choices=tuple(names),
            )
        for key in keys:
            if key.lower() not in [name.lower() for name in names] or "," in key:
                raise self.error(
                    "the key is not a column of the table",
                    begin,
                    value=key,
                    choices=near(key, names),
                )
        return ", ".join(keys)

    def _check_deleted(
        self, deleted: str, fields: tuple[Field, ...], keys: tuple[str, ...], begin: Token
    ) -> None:
        try:
            deleted_column(deleted, fields, keys)
        except HeadraceError as error:
            raise self.error(
                error.what, begin, value=error.value, choices=error.choices, hint=error.hint
            ) from None

    def _check_time(self, time: str, late: str, fields: tuple[Field, ...], begin: Token) -> None:
        moments = tuple(f.name for f in fields if f.type.name == "timestamp")
        if time.lower() not in [m.lower() for m in moments]:
            raise self.error(
                "a stream needs its event time: a TIMESTAMP column",
                begin,
                value=time or "no time",
                choices=moments,
                hint="write OPTIONS (…, time 'column')",
            )
        try:
            late_us = parse_duration_us(late)
        except HeadraceError as error:
            raise self.error(f"late: {error.what}", begin, value=late, hint=error.hint) from None
        if late_us < 0:
            raise self.error("late must not be negative", begin, value=late)

    def _options(self) -> dict[str, str]:
        self.expect("(")
        options: dict[str, str] = {}
        while True:
            token = self.token
            name = self._option_name()
            if name in options:
                raise self.error("the option is there twice", token, value=name)
            self.take("=")
            options[name] = self._option_value()
            if not self.take(","):
                break
        self.expect(")")
        return options

    def _option_name(self) -> str:
        if self.token.kind == "string":
            return self.next().text
        name = self.name("the name of an option")
        while self.take("."):
            name += "." + self.part()
        return name.lower() if name.lower() in ("path", "time", "late", "key", "deleted") else name

    def _option_value(self) -> str:
        token = self.next()
        if token.kind in ("string", "number") or token.upper in ("TRUE", "FALSE"):
            return token.text
        raise self.error("expected a value, in quotes", token, value=token.shown)

    def _source(self, kind: Token, options: Mapping[str, str]) -> str:
        """`parquet:data/trades?maxFilesPerTrigger=1`, `rate://1000`, `kafka://host:port/topic`."""
        rest = dict(options)
        if kind.kind == "string":
            place = kind.text
            if "path" in rest:
                raise self.error("the path is in USING already", kind, value=rest["path"])
        elif kind.text.lower() in KINDS and kind.kind == "word":
            place = self._place(kind, kind.text.lower(), rest)
        else:
            raise self.error("unknown kind of source", kind, value=kind.shown, choices=KINDS)
        if not rest:
            return place
        return f"{place}{'&' if '?' in place else '?'}{urlencode(rest)}"

    def _place(self, token: Token, kind: str, options: dict[str, str]) -> str:
        if kind in FILE_KINDS:
            path = options.pop("path", "")
            if not path or "?" in path:
                raise self.error(
                    f"a {kind} source needs OPTIONS (path '…'), without ?",
                    token,
                    value=path or "no path",
                )
            return f"{kind}:{path}"
        if kind == "rate":
            return f"rate://{options.pop('rowsPerSecond', '1')}"
        if "path" in options:
            return f"kafka://{options.pop('path')}"
        servers, topic = options.pop("kafka.bootstrap.servers", ""), options.pop("subscribe", "")
        if not servers or not topic:
            raise self.error(
                "a kafka source needs OPTIONS (path 'host:port/topic')",
                token,
                value=servers or topic or "no path",
            )
        return f"kafka://{servers}/{topic}"
