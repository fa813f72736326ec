"""A cursor over tokens: what every parser here is made of."""

from __future__ import annotations

from headrace.config import Config
from headrace.errors import SQLError, near
from headrace.sql.text import Token
from headrace.sql.types import DECIMAL_WORDS, TYPE_NAMES, atomic
from headrace.values import Type

# Words that may not be a bare name or alias: each of them continues or ends a clause.
RESERVED = frozenset(
    {
        "AND",
        "ANTI",
        "AS",
        "ASOF",
        "BETWEEN",
        "BY",
        "CASE",
        "CLUSTER",
        "CROSS",
        "DISTINCT",
        "DISTRIBUTE",
        "ELSE",
        "END",
        "ESCAPE",
        "EXCEPT",
        "FETCH",
        "FOR",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "ILIKE",
        "IN",
        "INNER",
        "INTERSECT",
        "INTO",
        "IS",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIKE",
        "LIMIT",
        "MINUS",
        "NATURAL",
        "NOT",
        "NULL",
        "ON",
        "OR",
        "ORDER",
        "OVER",
        "PIVOT",
        "QUALIFY",
        "REGEXP",
        "RIGHT",
        "RLIKE",
        "SELECT",
        "SEMI",
        "SORT",
        "TABLESAMPLE",
        "THEN",
        "UNION",
        "UNPIVOT",
        "USING",
        "WHEN",
        "WHERE",
        "WITH",
        "WITHIN",
        "TRUE",
        "FALSE",
        "DIV",
    }
)


class Cursor:
    """Where we are in the tokens of one text."""

    def __init__(self, sql: str, tokens: list[Token], config: Config) -> None:
        self.sql = sql
        self.tokens = tokens
        self.config = config
        self.index = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def peek(self, ahead: int) -> Token:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def at(self, word: str, *more: str) -> bool:
        """Are the next tokens these keywords or symbols?"""
        if self.tokens[self.index].upper != word:
            return False
        return all(self.peek(ahead).upper == following for ahead, following in enumerate(more, 1))

    def take(self, word: str, *more: str) -> bool:
        if not self.at(word, *more):
            return False
        self.index += 1 + len(more)
        return True

    def expect(self, word: str) -> Token:
        if self.token.upper != word:
            raise self.error(f"expected {word}", value=self.token.shown)
        return self.next()

    def expect_end(self) -> None:
        if self.token.kind != "end":
            raise self.error("expected the end of the text", value=self.token.shown)

    def name(self, wanted: str) -> str:
        """A bare or backquoted name."""
        token = self.token
        if token.kind == "quoted" or (token.kind == "word" and token.upper not in RESERVED):
            self.next()
            return token.text
        hint = f"put backquotes around it: `{token.text}`" if token.kind == "word" else ""
        raise self.error(f"expected {wanted}", value=token.shown, hint=hint)

    def part(self) -> str:
        """What follows a dot: any word, since no keyword can stand there."""
        token = self.next()
        if token.kind not in ("word", "quoted"):
            raise self.error("expected a name after the dot", token, value=token.shown)
        return token.text

    def string(self, wanted: str) -> str:
        if self.token.kind != "string":
            raise self.error(f"expected {wanted}, in quotes", value=self.token.shown)
        return self.next().text

    def type_name(self) -> Type:
        """`DOUBLE`, `DECIMAL(10,2)`: atomic types only."""
        token = self.next()
        params: list[int] = []
        if token.upper in DECIMAL_WORDS and self.take("("):
            params.append(self._whole())
            while self.take(","):
                params.append(self._whole())
            self.expect(")")
        found = atomic(token.text, params) if token.kind == "word" else None
        if found is not None and not self.at("<") and not self.at("("):
            return found
        if token.upper in DECIMAL_WORDS:
            raise self.error(
                "not a decimal type",
                token,
                value=f"{token.text}{tuple(params)}",
                hint="write DECIMAL(p, s) with 1 ≤ p ≤ 38 and 0 ≤ s ≤ p",
            )
        raise self.error(
            "unknown type, or one that is not atomic",
            token,
            value=token.shown,
            choices=near(token.text, TYPE_NAMES, 8),
        )

    def _whole(self) -> int:
        token = self.next()
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 3:
            raise self.error("expected a small whole number", token, value=token.shown)
        return int(token.text)

    def error(
        self,
        what: str,
        token: Token | None = None,
        *,
        value: object = None,
        hint: str = "",
        choices: tuple[str, ...] = (),
    ) -> SQLError:
        return SQLError(
            what, sql=self.sql, at=(token or self.token).at, value=value, hint=hint, choices=choices
        )
