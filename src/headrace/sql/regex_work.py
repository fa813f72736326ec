"""How many steps Java may take to find that a pattern does not match, at worst.

Java tries one way after another.  A sequence `A B` costs what A costs, and what B costs once for
each way in which A may end; so the cost of a pattern is computed from its end to its beginning,
each item given what follows it.  Two facts keep ordinary patterns cheap:

- `\\d+\\.` has one end that counts: where the next character cannot begin what follows, that fails
  at once;
- what cannot fail (`.*` at the end) is entered once.

The result is a bound: what is refused might be quick on most texts, what is accepted is never slow.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sql.regex import Chars, Choice, Item, Mark, Ranges, Repeat, Sequence, overlap, union

TEXT_LENGTH = 1_000


@dataclass(frozen=True, slots=True)
class _Rest:
    """What follows an item, tried at one place of the text."""

    fails: int | None  # steps until it has failed; None: it cannot
    takes: int  # steps until it has failed or matched
    rejects: int  # steps until it has failed where the next character is not in `first`
    first: Ranges
    empty: bool  # may it match without a character, or fail later than at the first?


_MATCHED = _Rest(None, 0, 0, (), True)


def steps(pattern: Choice, length: int = TEXT_LENGTH) -> int:
    """Steps to look for the pattern anywhere in a text of `length` characters."""
    whole = _choice(pattern, _MATCHED, length)
    starts = 0 if _anchored(pattern) else length
    return starts * (whole.fails or 0) + whole.takes


def _anchored(item: Item) -> bool:
    if isinstance(item, Choice):
        return all(way and _anchored(way[0]) for way in item.ways)
    return item == Mark("^")


def _sequence(items: Sequence, rest: _Rest, length: int) -> _Rest:
    for item in reversed(items):
        rest = _item(item, rest, length)
    return rest


def _item(item: Item, rest: _Rest, length: int) -> _Rest:
    if isinstance(item, Choice):
        return _choice(item, rest, length)
    if isinstance(item, Repeat):
        return _repeat(item, rest, length)
    fails, takes = 1 + (rest.fails or 0), 1 + rest.takes
    if isinstance(item, Chars):
        return _Rest(fails, takes, 1, item.ranges, False)
    return _Rest(fails, takes, 1 + rest.rejects, rest.first, rest.empty)


def _repeat(item: Repeat, rest: _Rest, length: int) -> _Rest:
    width, own = len(item.chars), item.chars[0].ranges
    times = length // width if item.high is None else min(item.high, length // width)
    ends = max(times - item.low, 0) + 1
    loop = (times + 1) * width
    again = rest.fails or 0
    if rest.empty or overlap(own, rest.first):
        tried = ends * again
    else:
        tried = again + ends * rest.rejects
    if rest.fails is None:
        fails = None if item.low == 0 else item.low * width
    else:
        fails = loop + tried
    if item.low:
        return _Rest(fails, loop + tried + rest.takes, 1, own, False)
    return _Rest(
        fails, loop + tried + rest.takes, 1 + rest.rejects, union(own, rest.first), rest.empty
    )


def _choice(item: Choice, rest: _Rest, length: int) -> _Rest:
    ways = [_sequence(way, rest, length) for way in item.ways]
    if len(ways) == 1:
        return ways[0]
    fails = [way.fails for way in ways if way.fails is not None]
    takes = [way.takes for way in ways]
    rejects = sum(way.rejects for way in ways)
    first, empty = union(*(way.first for way in ways)), any(way.empty for way in ways)
    # at most one of them goes on, or each may
    together = max if not empty and _apart(ways) else sum
    return _Rest(
        together(fails) + rejects if len(fails) == len(ways) else None,
        together(takes) + rejects,
        rejects,
        first,
        empty,
    )


def _apart(ways: list[_Rest]) -> bool:
    pairs = ((way, other) for index, way in enumerate(ways) for other in ways[:index])
    return not any(overlap(way.first, other.first) for way, other in pairs)
