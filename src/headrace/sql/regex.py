"""Regular expressions of RLIKE: the part of Java's syntax that we read, and know Java to read the
same way.

What is not here is refused: look-around, references, flags, possessive repetition, Unicode classes.
A pattern that is parsed compiles in Java (`tests/sql/test_regex.py` asks it), and how long it may
take is known (`regex_work.py`).

A group that repeats holds characters only, neither choices nor repetitions.  Java matches any other
by recursion over the text, and a long text would end its stack, which ends Spark.  The same befalls
one without an end that holds a set of characters of which some are one UTF-16 unit and some two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.sql.types import MismatchError

Ranges = tuple[tuple[int, int], ...]  # code points, first and last
REPEAT_MAX = 1_000
NESTING_MAX = 20
LAST = 0x10FFFF
_BMP_LAST = 0xFFFF
_BRACES = re.compile(r"\{(\d{1,4})(?:(,)(\d{0,4}))?\}", re.ASCII)
_DIGITS: Ranges = ((48, 57),)
_WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Ranges = ((9, 13), (32, 32))
_LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x85, 0x85), (0x2028, 0x2029))
_CONTROLS = {"t": 9, "n": 10, "r": 13}


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    ranges: Ranges

    @property
    def varies(self) -> bool:
        """Are some of them one UTF-16 unit, and some two?"""
        return self.ranges[0][0] <= _BMP_LAST < self.ranges[-1][1]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place that takes no characters: ^ $ b B."""

    which: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """Characters in a row, again and again; `high` None has no end."""

    chars: tuple[Chars, ...]
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several sequences: a group, or the whole pattern."""

    ways: tuple[Sequence, ...]


Item = Chars | Mark | Repeat | Choice
Sequence = tuple[Item, ...]


def union(*sets: Ranges) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(r for ranges in sets for r in ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    edges = [-1, *(edge for r in union(ranges) for edge in (r[0], r[1])), LAST + 1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((before + 1, after - 1) for before, after in pairs if before + 1 <= after - 1)


def overlap(left: Ranges, right: Ranges) -> bool:
    return any(a[0] <= b[1] and b[0] <= a[1] for a in left for b in right)


_CLASSES = {
    "d": _DIGITS,
    "D": complement(_DIGITS),
    "w": _WORDS,
    "W": complement(_WORDS),
    "s": _SPACES,
    "S": complement(_SPACES),
}
_ANY = Chars(complement(_LINE_ENDS))


def parse(pattern: str) -> Choice:
    """The pattern taken apart, or a MismatchError that says what we do not accept."""
    return _Parser(pattern).whole()


def trimmed(pattern: str) -> str:
    """The pattern without what it may begin or end with: RLIKE looks for a match anywhere, so
    `.*a.*` asks for `a`."""
    parser = _Parser(pattern)
    whole = parser.whole()
    if len(whole.ways) != 1:
        return pattern
    items, starts = whole.ways[0], [*parser.starts, len(pattern)]
    first, last = 0, len(items)
    while first < last and _may_be_empty(items[first]):
        first += 1
    while first < last and _may_be_empty(items[last - 1]):
        last -= 1
    return pattern[starts[first] : starts[last]]


def _may_be_empty(item: Item) -> bool:
    return isinstance(item, Repeat) and item.low == 0


class _Parser:
    """One pass over a pattern; groups by recursion, NESTING_MAX deep.  `starts` is where each item
    of the outermost sequence begins, the last that was read."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.nesting = 0
        self.starts: list[int] = []

    def whole(self) -> Choice:
        found = self._choice()
        if self.at < len(self.pattern):
            raise self._error("a group is closed that was not opened")
        return found

    def _next(self, ahead: int = 0) -> str:
        return self.pattern[self.at + ahead : self.at + ahead + 1]

    def _choice(self) -> Choice:
        ways = [self._sequence()]
        while self._next() == "|":
            self.at += 1
            ways.append(self._sequence())
        return Choice(tuple(ways))

    def _sequence(self) -> Sequence:
        items: list[Item] = []
        while self._next() not in ("", "|", ")"):
            if self.nesting == 0:
                del self.starts[len(items) :]
                self.starts.append(self.at)
            items.append(self._repeated(self._atom()))
        return tuple(items)

    def _atom(self) -> Item:
        mark = self._next()
        if mark in "*+?{":
            raise self._error(
                "nothing to repeat, or a repetition of a repetition"
                if mark != "{"
                else "{ begins a count, such as {2,5}",
                "write a backslash before the character itself",
            )
        if mark == "(":
            return self._group()
        if mark == "[":
            return self._class()
        if mark == "\\":
            return self._escape()
        self.at += 1
        if mark in "^$":
            return Mark(mark)
        return _ANY if mark == "." else Chars(((ord(mark), ord(mark)),))

    def _group(self) -> Choice:
        plain = self.pattern.startswith("(?:", self.at)
        if self.pattern.startswith("(?", self.at) and not plain:
            raise self._error(
                "look-around, flags and named groups are not accepted", "use ( ) or (?: )"
            )
        if self.nesting == NESTING_MAX:
            raise self._error(f"groups are nested deeper than {NESTING_MAX}")
        opened = self.at
        self.at += 3 if plain else 1
        self.nesting += 1
        found = self._choice()
        self.nesting -= 1
        if self._next() != ")":
            self.at = opened
            raise self._error("a group is not closed")
        self.at += 1
        return found

    def _escape(self) -> Item:
        letter = self._next(1)
        if letter in ("b", "B"):
            self.at += 2
            return Mark(letter)
        return Chars(self._escaped())

    def _escaped(self) -> Ranges:
        letter = self._next(1)
        if letter in _CLASSES:
            found = _CLASSES[letter]
        elif letter in _CONTROLS:
            found = ((_CONTROLS[letter],) * 2,)
        elif letter and letter.isascii() and letter.isprintable() and not letter.isalnum():
            found = ((ord(letter),) * 2,)
        else:
            raise self._error(
                "an escape we do not accept", "\\d \\w \\s \\b and escaped punctuation are"
            )
        self.at += 2
        return found

    def _class(self) -> Chars:
        opened = self.at
        self.at += 1
        negated = self._next() == "^"
        self.at += negated
        found: list[Ranges] = []
        while self._next() != "]" or not found:
            if self._next() in ("", "[", "&"):
                self.at = opened
                raise self._error("a character class we do not accept", "write one like [a-z0-9_]")
            found.append(self._member())
        self.at += 1
        ranges = complement(union(*found)) if negated else union(*found)
        if not ranges:
            raise self._error("a character class that nothing is in")
        return Chars(ranges)

    def _member(self) -> Ranges:
        """A character, a class like \\d, or a range like a-z."""
        first = self._single()
        if self._next() != "-" or self._next(1) == "]" or first[0][0] != first[-1][1]:
            return first
        self.at += 1
        if self._next() in ("", "[", "&"):
            raise self._error("a character class we do not accept", "write one like [a-z0-9_]")
        start = self.at
        last = self._single()
        if last[0][0] != last[-1][1] or last[0][0] < first[0][0]:
            self.at = start
            raise self._error(
                "a range of characters goes from a smaller to a larger one", "write one like [a-z]"
            )
        return ((first[0][0], last[0][0]),)

    def _single(self) -> Ranges:
        if self._next() == "\\":
            return self._escaped()
        self.at += 1
        return ((ord(self.pattern[self.at - 1]),) * 2,)

    def _repeated(self, atom: Item) -> Item:
        mark = self._next()
        if not mark or mark not in "*+?{":
            return atom
        low, high = self._counts(mark)
        greedy = self._next() != "?"
        self.at += not greedy
        if self._next() and self._next() in "*+?{":
            raise self._error("nothing to repeat, or a repetition of a repetition")
        if isinstance(atom, Choice) and high == 1:
            return atom if low else Choice((*atom.ways, ()))
        chars = self._chars(atom)
        if greedy and high is None and isinstance(atom, Choice) and any(c.varies for c in chars):
            raise self._error(
                "Java would recurse over a text with characters beyond U+FFFF",
                "give the repeated group an end: (a.){0,100}",
            )
        return Repeat(chars, low, high)

    def _chars(self, atom: Item) -> tuple[Chars, ...]:
        """What repeats, if it is characters only."""
        if isinstance(atom, Chars):
            return (atom,)
        if isinstance(atom, Mark):
            raise self._error("nothing to repeat, or a repetition of a repetition")
        if isinstance(atom, Choice) and len(atom.ways) == 1 and atom.ways[0]:
            return tuple(c for item in atom.ways[0] for c in self._chars_inside(item))
        raise self._busy()

    def _chars_inside(self, item: Item) -> tuple[Chars, ...]:
        if isinstance(item, Repeat | Mark):
            raise self._busy()
        return self._chars(item)

    def _busy(self) -> MismatchError:
        return self._error(
            "a repeated group repeats or branches inside: it may take exponential time"
        )

    def _counts(self, mark: str) -> tuple[int, int | None]:
        if mark != "{":
            self.at += 1
            return (1 if mark == "+" else 0), (1 if mark == "?" else None)
        found = _BRACES.match(self.pattern, self.at)
        if found is None:
            raise self._error(
                "{ begins a count, such as {2,5}", "write \\{ for the character itself"
            )
        low, comma, top = found.groups()
        high = int(top) if top else (None if comma else int(low))
        if max(int(low), high or 0) > REPEAT_MAX or (high is not None and high < int(low)):
            raise self._error(f"counts go up to {REPEAT_MAX:,}, the smaller first")
        self.at = found.end()
        return int(low), high

    def _error(self, what: str, hint: str = "") -> MismatchError:
        return MismatchError(
            f"the pattern is not one we accept: {what}",
            arg=1,
            value=f"{self.pattern!r}, at character {self.at + 1}",
            hint=hint,
        )
