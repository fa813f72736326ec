"""One SELECT over one relation or two.  Every other clause of SQL is known by name only, to refuse
it clearly."""

from __future__ import annotations

from itertools import takewhile

from headrace.config import Config
from headrace.errors import SQLError
from headrace.sql.parse_core import RESERVED
from headrace.sql.parse_expr import ExpressionParser
from headrace.sql.syntax import Item, Joined, Node, Select, Star
from headrace.sql.text import tokenize

_INSTEAD = {
    "ORDER": "answers have no order; sort them where they are read",
    "SORT": "answers have no order; sort them where they are read",
    "LIMIT": "filter with WHERE or HAVING",
    "DISTINCT": "write GROUP BY with the columns that must be distinct",
    "UNION": "add each SELECT as a query of its own",
    "EXCEPT": "add each SELECT as a query of its own",
    "INTERSECT": "add each SELECT as a query of its own",
    "WITH": "write the query as one SELECT over one stream or table",
    "QUALIFY": "use HAVING",
    **dict.fromkeys(
        ("ANTI", "FULL", "LEFT", "NATURAL", "RIGHT", "SEMI"),
        "write JOIN … ON …: joins are inner joins",
    ),
}
_INSTEAD_OF_PAIRS = {
    "DISTINCT": "add the join without it, and take each answer once where answers are read: eng.results(q)",
    "LIMIT": "filter with WHERE, and stop where answers are read: eng.watch(q)",
    "QUALIFY": "add the join without it, and choose where answers are read: eng.results(q)",
}
_UNAVAILABLE = frozenset(
    {
        "ANTI",
        "ASOF",
        "CLUSTER",
        "CROSS",
        "DISTRIBUTE",
        "EXCEPT",
        "FETCH",
        "FOR",
        "FULL",
        "INNER",
        "INTERSECT",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIMIT",
        "MINUS",
        "NATURAL",
        "OFFSET",
        "ORDER",
        "PIVOT",
        "QUALIFY",
        "RIGHT",
        "SEMI",
        "SORT",
        "TABLESAMPLE",
        "UNION",
        "UNPIVOT",
        "WINDOW",
    }
)


def parse_select(sql: str, config: Config) -> Select:
    """The one SELECT in the text."""
    parser = SelectParser(sql, tokenize(sql, config), config)
    try:
        return parser.statement()
    except RecursionError:
        raise SQLError(
            f"the query is nested too deep to read (sql_depth_max={config.sql_depth_max})",
            sql=sql,
            hint="split the expression",
        ) from None


class SelectParser(ExpressionParser):
    """SELECT … FROM … [WHERE …] [GROUP BY …] [HAVING …] [;]"""

    def statement(self) -> Select:
        if not self.at("SELECT"):
            self._refuse_clause()
            raise self.error("a query begins with SELECT", value=self.token.shown)
        select = self._select()
        if self.take(";") and self.token.kind != "end":
            raise self.error(
                "one statement at a time", value=self.token.shown, hint="add each query by itself"
            )
        self._refuse_clause()
        self.expect_end()
        return select

    def _select(self) -> Select:
        self.expect("SELECT")
        hints = self._hints()
        if self.at("DISTINCT"):
            self._refuse_clause()
        items = self._items()
        if self.token.kind == "end":
            raise self.error(
                "expected FROM", hint="a standing query reads one stream or table of the catalog"
            )
        self._refuse_clause()
        self.expect("FROM")
        source_at = self.token.at
        source = self._source()
        alias = self._source_alias()
        joined = self._joined()
        where = self.expression() if self.take("WHERE") else None
        self._refuse_clause()
        groups = self._groups()
        having = self.expression() if self.take("HAVING") else None
        return Select(items, source, source_at, alias, where, groups, having, hints, joined)

    def _hints(self) -> tuple[str, ...]:
        hints: list[str] = []
        while self.token.kind == "hint":
            hints.append(self.next().text)
        return tuple(hints)

    def _items(self) -> tuple[Item, ...]:
        items = [self._item()]
        while self.take(","):
            items.append(self._item())
        return tuple(items)

    def _item(self) -> Item:
        token = self.token
        if token.upper == "*":
            return Item(Star(None, self.next().at), None, token.at)
        if self.peek(1).upper == "." and self.peek(2).upper == "*":
            qualifier = self.name("a relation")
            self.next()
            self.next()
            return Item(Star(qualifier, token.at), None, token.at)
        if token.upper in ("ALL", "TRANSFORM", "MAP", "REDUCE") and self.peek(1).upper not in (
            ",",
            "FROM",
            "AS",
            ".",
        ):
            raise self.error("expected an expression to select", value=token.text)
        node = self.expression()
        return Item(node, self._alias(), token.at)

    def _alias(self) -> str | None:
        token = self.token
        if self.take("AS"):
            if self.at("("):
                raise self.error("one alias for one expression", value="(")
            return self.name("an alias")
        if token.kind == "string":
            raise self.error(
                "an alias is not in quotes", value=repr(token.text), hint="use backquotes, or none"
            )
        if token.kind == "quoted" or (token.kind == "word" and token.upper not in RESERVED):
            return self.next().text
        return None

    def _source(self) -> str:
        if self.at("(") or self.at("VALUES") or self.at("LATERAL"):
            raise self.error(
                "FROM takes the name of a stream or table",
                value=self.token.text,
                hint="subqueries and VALUES are not available in a standing query",
            )
        name = self.name("the name of a stream or table")
        if self.at("."):
            raise self.error(
                "a stream or table has a name of one part",
                value=f"{name}.{self.peek(1).text}",
                hint="create it in the catalog first, then use its name; files are read by CREATE STREAM",
            )
        if self.at("("):
            raise self.error(
                "functions that make tables are not available",
                value=f"{name}(…)",
                hint="FROM takes the name of a stream or table",
            )
        return name

    def _source_alias(self) -> str | None:
        if self.token.upper in ("VERSION", "TIMESTAMP", "FOR") and self.peek(1).upper in (
            "AS",
            "OF",
        ):
            raise self.error("time travel is not available", value=self.token.text)
        if self._is_join():
            return None
        if self.token.upper in _UNAVAILABLE and self.peek(1).upper not in (
            "",
            "WHERE",
            "GROUP",
            "HAVING",
        ):
            self._refuse_clause()
        alias = self._alias()
        if alias is not None and self.at("("):
            raise self.error("column aliases of a relation are not available", value="(")
        return alias

    def _is_join(self) -> bool:
        return (
            self.at(",") or self.at("JOIN") or self.at("INNER", "JOIN") or self.at("CROSS", "JOIN")
        )

    def _joined(self) -> Joined | None:
        """JOIN r ON …, INNER JOIN r ON …, CROSS JOIN r, or a comma and r."""
        if not self._is_join():
            self._refuse_clause()
            return None
        word = "a comma" if self.at(",") else self.token.upper
        has_on = word not in ("a comma", "CROSS")
        while not self.take("JOIN") and not self.take(","):
            self.next()
        source_at = self.token.at
        source, alias = self._source(), self._source_alias()
        if not has_on and (self.at("ON") or self.at("USING")):
            raise self.error(
                f"{'CROSS JOIN' if word == 'CROSS' else word} takes no {self.token.upper}",
                value=self.token.text,
                hint="write JOIN … ON …, or the condition after WHERE",
            )
        on = self._condition() if has_on else None
        if self._is_join():
            raise self.error(
                "a standing query joins two relations",
                value=self.token.text,
                hint="add a query for each pair",
            )
        self._refuse_clause()
        return Joined(source, source_at, alias, on)

    def _condition(self) -> Node:
        if self.at("USING"):
            raise self.error(
                "USING is not available",
                value=self.token.text,
                hint="write ON a.column = b.column: a column of both would have two meanings",
            )
        if not self.take("ON"):
            raise self.error(
                "expected ON and the condition of the join",
                value=self.token.shown,
                hint="… JOIN s ON s.b - r.b BETWEEN 3 AND 9, or CROSS JOIN with WHERE",
            )
        return self.expression()

    def _groups(self) -> tuple[Node, ...] | None:
        if not self.take("GROUP"):
            return None
        self.expect("BY")
        groups = [self._group()]
        while self.take(","):
            groups.append(self._group())
        if self.token.upper in ("WITH", "AS") or self.at("GROUPING"):
            raise self.error(
                f"{self.token.text} is not available after GROUP BY",
                value=self.token.text,
                hint="give an alias in the select list; add one query per grouping set",
            )
        return tuple(groups)

    def _group(self) -> Node:
        after = self.peek(1)
        sets = (self.token.upper in ("ROLLUP", "CUBE") and after.upper == "(") or self.at(
            "GROUPING", "SETS"
        )
        if sets or (
            self.at("ALL") and (after.kind == "end" or after.upper in ("HAVING", ";", ","))
        ):
            raise self.error(
                f"GROUP BY {self.token.upper} is not available",
                value=self.token.text,
                hint="write out the keys; add one query per grouping set",
            )
        if self.at("(") and after.upper == ")":
            raise self.error("GROUP BY () is not available", value="()", hint="leave GROUP BY out")
        return self.expression()

    def _refuse_clause(self) -> None:
        word = self.token.upper
        if word in _UNAVAILABLE or word in _INSTEAD:
            pairs = _INSTEAD_OF_PAIRS.get(word) if self._has_join() else None
            raise self.error(
                f"{word} is not available in a standing query",
                value=self.token.text,
                hint=pairs or _INSTEAD.get(word, "one SELECT over one stream or table"),
            )

    def _has_join(self) -> bool:
        """Whether two relations are written after FROM, wherever we are."""
        words = [token.upper for token in self.tokens]
        after = words[words.index("FROM") + 1 :] if "FROM" in words else []
        source = list(
            takewhile(
                lambda word: word not in ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT"), after
            )
        )
        return "JOIN" in source or "," in source
