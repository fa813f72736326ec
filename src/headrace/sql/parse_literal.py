"""Constants as tokens: numbers, typed times, intervals."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.sql import literals
from headrace.sql.duration import UNIT_US, parse_duration_us
from headrace.sql.parse_core import Cursor
from headrace.sql.syntax import Constant
from headrace.sql.text import Token
from headrace.sql.tree import Literal
from headrace.values import BOOLEAN, INTERVAL, VOID

CONSTANT_WORDS = {"NULL": Literal(None, VOID), "TRUE": Literal(True, BOOLEAN), "FALSE": Literal(False, BOOLEAN)}


class LiteralParser(Cursor):
    """Reads one constant from where the cursor is."""

    def number(self, token: Token, sign: str, start: Token) -> Constant:
        try:
            return self.constant(literals.number(sign + token.text), start)
        except ValueError as error:
            raise self.error(str(error), start, value=sign + token.text) from None

    def constant(self, literal: Literal, token: Token) -> Constant:
        return Constant(literal.value, literal.type, literals.shown(literal), token.at)

    def typed(self, token: Token) -> Constant:
        mark = self.next()
        try:
            return self.constant(literals.as_time(mark.text, literals.TYPED[token.upper]), token)
        except ValueError as error:
            raise self.error(str(error), mark, value=repr(mark.text), hint=literals.TIMES) from None

    def interval(self, token: Token) -> Constant:
        """INTERVAL 5 MINUTES, INTERVAL '5' MINUTE, INTERVAL '1 hour 30 minutes'."""
        text = ""
        while self.token.kind in ("string", "number") or self.token.text in ("+", "-"):
            text += self.next().text
            if self.token.upper.lower().removesuffix("s") in (*UNIT_US, "month", "quarter", "year"):
                text += f" {self.next().text} "
        if self.at("TO"):
            raise self.error("ranges of units are not available", hint="write INTERVAL '1 hour 30 minutes'")
        try:
            value = parse_duration_us(text)
        except HeadraceError as error:
            raise self.error(error.what, token, value=error.value, hint=error.hint, choices=error.choices) from None
        return Constant(value, INTERVAL, f"INTERVAL '{text.strip()}'", token.at)
