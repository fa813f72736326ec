"""Arguments of the public API that are of another kind than it takes: told at the door, not from
somewhere inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.config import Config
from headrace.errors import HeadraceError

_EXAMPLES = {
    "name": "name='near'",
    "sql": "eng.add(\"SELECT …\", name='near')",
    "query": "the name of a query, as eng.add returns it: eng.queries() lists all",
    "stream": "the name of a stream or table: eng.catalog.relations has all",
    "schema": "schema='symbol STRING, price DOUBLE, ts TIMESTAMP'",
    "time": "time='ts'",
    "late": "late='10 seconds'",
    "key": "key='symbol', or 'symbol, day'",
    "deleted": "deleted='gone'",
}


def check_texts(**arguments: object) -> None:
    """Refuse arguments of a public call that should be texts and are not."""
    for name, value in arguments.items():
        if not isinstance(value, str):
            raise _refusal(name, "a text", value, _EXAMPLES[name])


def check_optional(**arguments: object) -> None:
    """Each is a text, or None."""
    for name, value in arguments.items():
        if value is not None:
            check_texts(**{name: value})


def check_queries(queries: object) -> None:
    """Names of queries, and their SQL."""
    example = 'eng.add_many({\'near\': "SELECT …"}); eng.add("SELECT …") makes up a name'
    if not isinstance(queries, Mapping):
        raise _refusal("queries", "a mapping of names to SQL", queries, example)
    for name, sql in queries.items():
        if not isinstance(name, str):
            raise _refusal("queries", "a mapping whose names are texts", name, example)
        if not isinstance(sql, str):
            raise _refusal(
                "queries", f"a mapping whose SQL is text, also that of {name!r}", sql, example
            )


def check_names(queries: object) -> list[str]:
    """Names of queries; one alone too."""
    if not isinstance(queries, Iterable):
        raise _refusal("queries", "names of queries", queries, "eng.drop_many(['near', 'far'])")
    names = [queries] if isinstance(queries, str) else list(queries)
    for name in names:
        check_texts(query=name)
    return names


def check_limit(limit: object) -> int:
    """How many answers are wanted."""
    if type(limit) is not int or limit < 1:
        raise _refusal("limit", "a whole number above 0", limit, "limit=1000")
    return limit


def check_opening(home: object, config: object) -> None:
    if not isinstance(home, str | Path):
        raise _refusal("home", "the path of a folder", home, "headrace.Engine('race')")
    if config is not None and not isinstance(config, Config):
        raise _refusal(
            "config", "a Config", config, "config=headrace.config.Config.of(queries_max=200_000)"
        )


def check_round(after: object) -> None:
    if not isinstance(after, int) or isinstance(after, bool):
        raise _refusal(
            "after", "the number of a round", after, "after=notice.round_id; -1 is before the first"
        )


def _refusal(name: str, wanted: str, value: object, hint: str) -> HeadraceError:
    return HeadraceError(
        f"{name} must be {wanted}", value=f"{value!r}, {_kind(value)}", hint=hint, code="ARGUMENT"
    )


def _kind(value: object) -> str:
    return "nothing" if value is None else f"of type {type(value).__name__}"
