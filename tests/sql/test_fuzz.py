"""Junk and mutated SQL: whatever comes, the only error is ours."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.sql.duration import parse_duration_us
from headrace.sql.emit import emit_query
from headrace.sql.schema import parse_schema
from headrace.sql.statements import parse_script
from tests.sql.oracle import TRADES, bound
from tests.sql.queries import grouped, stateless

_TEXT = """
SELECT FROM WHERE GROUP BY HAVING AS AND OR NOT IN IS NULL BETWEEN LIKE ESCAPE CASE WHEN THEN ELSE END CAST FILTER
DISTINCT OVER INTERVAL DATE DECIMAL TRUE CREATE STREAM TABLE QUERY USING OPTIONS PRIMARY KEY DROP SHOW trades ts
window price qty symbol ok count sum 'a' '1_hour' '' 1 -1 1.5 1e400 5L 9Y `x` ( ) , . ; * + - / % || = <=> != < > ! :: :
-- /* */ /*+ ' " ` \\ { } [ ] @ $ ? r' ü 😀
"""
_WORDS = (*_TEXT.split(), "'1 hour'", "\n", "\x00", "\ud800")


def ask(text: str) -> None:
    """Bind, and emit what was bound; only a HeadraceError may come out, and its text must
    render."""
    try:
        query = bound(text)
    except HeadraceError as error:
        assert str(error).startswith("[")
        return
    assert emit_query(query, TRADES, "v")


@settings(max_examples=300)
@given(st.lists(st.sampled_from(_WORDS), max_size=25).map(" ".join))
def test_words_in_any_order(text: str) -> None:
    ask(text)
    ask(f"SELECT {text} FROM trades")
    ask(f"SELECT 1 AS x FROM trades WHERE {text}")


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    ask(text)
    ask(f"SELECT {text} FROM trades GROUP BY {text}")
    for parse in (parse_schema, parse_duration_us, lambda t: parse_script(t, Config())):
        try:
            parse(text)
        except HeadraceError as error:
            assert str(error).startswith("[")


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A good query with pieces cut out, doubled, swapped in or replaced."""
    text = draw(st.one_of(stateless(), grouped()))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 8)))
        text = (
            text[:start]
            + draw(
                st.one_of(
                    st.sampled_from(_WORDS), st.text(max_size=3), st.just(text[start:end] * 2)
                )
            )
            + text[end:]
        )
    return text


@settings(max_examples=300)
@given(mutated())
def test_mutated_queries(text: str) -> None:
    ask(text)
    try:
        parse_script(text, Config())
    except HeadraceError as error:
        assert str(error).startswith("[")


LONG = (
    "SELECT symbol, ts + INTERVAL '1' HOUR - INTERVAL -5 MINUTES AS t, CASE WHEN qty IN (1, 2) THEN DATE '2024-01-01' "
    "END, CAST(price AS DECIMAL(12, 2)), count(DISTINCT qty) FROM trades WHERE NOT (price BETWEEN 1 AND 2.5e1 OR "
    "symbol LIKE 'A%') AND ts > TIMESTAMP '2024-01-01 00:00:00' - INTERVAL '1 hour 30 minutes' GROUP BY symbol, "
    "window(ts, '5 minutes', INTERVAL 1 MINUTE) HAVING sum(qty) > 3 AND max(price) IS NOT NULL"
)


def test_every_beginning_of_a_query_is_parsed_or_refused() -> None:
    for end in range(len(LONG) + 1):
        ask(LONG[:end])
