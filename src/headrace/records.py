"""What files say, checked: data out of JSON as the dataclass it was written from, or the place that
does not fit.

A checksum tells a torn file from a whole one, not a right one from a wrong one: a file may have
been written by another version, edited, or put together by a tool that seals what it damages.  So
nothing that was read is used before it has the types that its dataclass names.  `reading` is the
door: what goes wrong inside is said as one of our errors, with the file and what to do.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from headrace.errors import HeadraceError, HomeError

T = TypeVar("T")
ODD = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    NotImplementedError,
    EOFError,
)
FILE_NAME_MAX, PATH_MAX = 255, 4_000  # bytes
INT_MAX = 1 << 63  # whole numbers of files are 64-bit ones
_NAMES = {
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    float: "a number",
    types.NoneType: "nothing",
}
_ADVICE = "restore it from a backup; `headrace doctor` shows what the home holds"
Decoder = Callable[[Any], Any]


def decode(kind: type[T], data: object) -> T:
    """The data as this dataclass, with the ones inside it; ValueError says what does not fit, and
    where."""
    made: T = decoder_of(cast(Any, kind))(data)
    return made


def encode(record: object) -> dict[str, Any]:
    """A dataclass as `decode` reads it: what JSON would make of it."""
    return {f.name: _plain_value(getattr(record, f.name)) for f in fields(cast(Any, record))}


def _plain_value(value: Any) -> Any:
    if is_dataclass(value):
        return encode(value)
    if isinstance(value, Mapping):
        return {key: _plain_value(own) for key, own in value.items()}
    if isinstance(value, tuple | list):
        return [_plain_value(own) for own in value]
    return value


def check_path(path: str) -> None:
    """ValueError where no file can have this path."""
    parts = path.encode().split(b"/")
    if "\0" in path or sum(map(len, parts)) > PATH_MAX or max(map(len, parts)) > FILE_NAME_MAX:
        raise ValueError(f"{_short(path)} is not a path")


@contextmanager
def reading(
    path: Path,
    what: str = "a committed file",
    code: str = "FILE_DAMAGED",
    hint: str = _ADVICE,
    kind: type[HeadraceError] = HomeError,
) -> Iterator[None]:
    """The one door for records: what cannot be read or does not fit is told with the file and the
    next step."""
    try:
        yield
    except OSError as error:
        reason = (
            "is missing"
            if isinstance(error, FileNotFoundError)
            else f"cannot be read: {error.strerror or error}"
        )
        raise kind(f"{what} {reason}", value=str(path), hint=hint, code=code) from error
    except ODD as error:
        # numpy, pyarrow and json each raise their own kinds of these for bytes that are not what
        # they should be
        raise kind(
            f"{what} is damaged",
            value=f"{path}: {type(error).__name__}: {error}",
            hint=hint,
            code=code,
        ) from error


@cache
def decoder_of(kind: Any) -> Decoder:
    """How a value of a type is read; worked out once."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return _same
    if origin in (typing.Union, types.UnionType):
        return _one_of(
            [decoder_of(k) for k in inside if k is not types.NoneType], types.NoneType in inside
        )
    if origin is Sequence:
        return _list_of(decoder_of(inside[0]))
    if origin is tuple:
        return (
            _list_of(decoder_of(inside[0]))
            if inside[-1] is Ellipsis
            else _tuple_of([decoder_of(k) for k in inside])
        )
    if origin in (Mapping, dict):
        return _mapping_of(decoder_of(inside[1]))
    if is_dataclass(kind):
        return _record(kind)
    if kind is int:
        return _whole_number
    if kind is float:
        return _number
    return _plain(kind)


def _same(value: Any) -> Any:
    return value


def _whole_number(value: Any) -> int:
    if type(value) is not int or not -INT_MAX <= value < INT_MAX:
        raise ValueError(f"{_short(value)} is not a whole number of 64 bits")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or (type(value) is int and abs(value) >= INT_MAX):
        raise ValueError(f"{_short(value)} is not a number")
    return float(value) if type(value) is not float else value


def _plain(kind: Any) -> Decoder:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{_short(value)} is not {_NAMES.get(kind, kind)}")
        if kind is str and not value.isascii():
            value.encode()  # a half of a surrogate pair, which no file can hold, raises
        return value

    return read


def _one_of(options: list[Decoder], may_be_none: bool) -> Decoder:
    def read(value: Any) -> Any:
        if value is None and may_be_none:
            return None
        for option in options[:-1]:
            try:
                return option(value)
            except ValueError:
                continue
        return options[-1](value)

    return read


def _list_of(option: Decoder) -> Decoder:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError(f"{_short(value)} is not a list")
        return tuple([option(v) for v in value])

    return read


def _tuple_of(options: list[Decoder]) -> Decoder:
    def read(value: Any) -> Any:
        if type(value) is not list or len(value) != len(options):
            raise ValueError(f"{_short(value)} is not a list of {len(options)}")
        return tuple([option(v) for option, v in zip(options, value, strict=True)])

    return read


def _mapping_of(option: Decoder) -> Decoder:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f"{_short(value)} is not an object")
        return {k: option(v) for k, v in value.items()}

    return read


def _record(kind: Any) -> Decoder:
    hints = typing.get_type_hints(kind)
    known = {f.name: decoder_of(hints[f.name]) for f in fields(kind)}
    needed = frozenset(f.name for f in fields(kind) if not _has_default(f))

    def read(value: Any) -> Any:
        if type(value) is not dict or not needed <= value.keys() <= known.keys():
            raise ValueError(f"{_short(value)} is not a {kind.__name__} of {', '.join(known)}")
        name = ""
        try:
            made = {}
            for name, own in value.items():
                made[name] = known[name](own)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        return kind(**made)

    return read


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
