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

CONSTANT_WORDS = {
    "NULL": Literal(None, VOID),
    "TRUE": Literal(True, BOOLEAN),
    "FALSE": Literal(False, BOOLEAN),
}


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

    def at_interval(self, ahead: int = 0) -> bool:
        """Do a value and a unit follow: `5 MINUTES`, `- '5' MINUTE`?"""
        value = ahead + (self.peek(ahead).text in ("+", "-"))
        unit = self.peek(value + 1)
        return (
            self.peek(value).kind in ("string", "number")
            and unit.kind == "word"
            and _is_unit(unit.text)
        )

    def interval(self, token: Token) -> Constant:
        """INTERVAL 5 MINUTES, INTERVAL -'5' MINUTE, INTERVAL 1 HOUR 30 MINUTES, INTERVAL '1 hour 30
        minutes'."""
        parts: list[str] = []
        while self.at_interval():
            parts.append(self._interval_part())
        text = " ".join(parts) if parts else self.next().text
        if self.at("TO"):
            raise self.error(
                "ranges of units are not available", hint="write INTERVAL '1 hour 30 minutes'"
            )
        try:
            value = parse_duration_us(text)
        except HeadraceError as error:
            raise self.error(
                error.what, token, value=error.value, hint=error.hint, choices=error.choices
            ) from None
        return Constant(value, INTERVAL, f"INTERVAL '{text}'", token.at)

    def _interval_part(self) -> str:
        """One value with its unit.  A minus before a string turns the sign inside it, as in
        Spark."""
        sign = self.next().text if self.token.text in ("+", "-") and self.token.kind == "op" else ""
        value = self.next()
        if value.kind == "string" and any(c.isalpha() for c in value.text):
            raise self.error(
                "the value of an interval is a number",
                value,
                value=repr(value.text),
                hint="write INTERVAL '1 hour 30 minutes', or INTERVAL '1' HOUR",
            )
        minus = sign == "-"
        text = value.text.removeprefix("-") if minus else value.text
        turned = "-" if minus and text == value.text else ""
        return f"{turned}{text} {self.next().text}"

    def negated(self, interval: Constant, token: Token) -> Constant:
        """`- INTERVAL …` is a constant too."""
        assert isinstance(interval.value, int)
        return Constant(-interval.value, INTERVAL, f"(- {interval.shown})", token.at)


def _is_unit(word: str) -> bool:
    return word.lower().removesuffix("s") in (*UNIT_US, "month", "quarter", "year")
