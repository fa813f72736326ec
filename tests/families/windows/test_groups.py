"""Keys as numbers, and facts of keys: asked once of each key, whatever rounds and queries come."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from headrace.families.windows.groups import FACTS_MIN, Groups
from headrace.sql.tree import Call, Column, Expr, Literal
from headrace.values import BOOLEAN, DOUBLE, STRING

K, X = Column("k", STRING), Column("x", DOUBLE)
UPPER = Call("upper", (K,), STRING)
IS_A = Call("=", (K, Literal("a", STRING)), BOOLEAN)
TYPES: dict[Expr, pa.DataType] = {K: pa.string(), X: pa.float64()}


class Asked:
    """Evaluates the two facts, and remembers of which keys."""

    def __init__(self) -> None:
        self.keys: list[list[object]] = []

    def __call__(self, keys: Sequence[Expr], values: Sequence[pa.Array], facts: Sequence[Expr]) -> list[pa.Array]:
        found = values[list(keys).index(K)].to_pylist()
        self.keys.append(found)
        known: dict[Expr, pa.Array] = {
            UPPER: pa.array([None if k is None else k.upper() for k in found], pa.string()),
            IS_A: pa.array([None if k is None else k == "a" for k in found], pa.bool_()),
        }
        return [known.get(f, known[IS_A]) for f in facts]


def encode(groups: Groups, *keys: str | None) -> list[int]:
    return [int(number) for number in groups.encode([pa.array(keys, pa.string())], len(keys))]


def test_only_new_keys_are_asked_of() -> None:
    groups, asked, types = Groups((K,)), Asked(), dict(TYPES)
    groups.learn([IS_A], types, asked)
    assert not asked.keys and groups.flags(IS_A).size == 0
    assert encode(groups, "a", "b", "a", None) == [0, 1, 0, 2]
    groups.learn([UPPER, IS_A], types, asked)
    groups.learn([UPPER, IS_A], types, asked)
    assert encode(groups, "c", "a") == [3, 0]
    groups.learn([IS_A], types, asked)
    assert asked.keys == [["a", "b", None], ["c"]]
    assert groups.flags(IS_A).tolist() == [1, 0, 0, 0]
    groups.learn([UPPER], types, asked)
    assert asked.keys[2:] == [["c"]] and types[UPPER] == pa.string()


def test_coarser_groups_by_a_fact() -> None:
    groups, asked, types = Groups((K,)), Asked(), dict(TYPES)
    encode(groups, "a", "A", "b", None)
    groups.learn([UPPER], types, asked)
    coarser, whole = Groups((UPPER,)), Groups(())
    assert groups.into(coarser).tolist() == [0, 0, 1, 2]
    assert groups.into(whole).tolist() == [0, 0, 0, 0]
    encode(groups, "B", "d")
    groups.learn([UPPER], types, asked)
    assert groups.into(coarser).tolist() == [0, 0, 1, 2, 1, 3]
    assert coarser.arrays([types[UPPER]])[0].to_pylist() == ["A", "B", None, "D"]


def test_facts_nobody_wants_are_forgotten() -> None:
    groups, asked, types = Groups((K,)), Asked(), dict(TYPES)
    encode(groups, "a")
    others = [Call("=", (K, Literal(str(i), STRING)), BOOLEAN) for i in range(FACTS_MIN + 3)]
    groups.learn(others, types, asked)
    encode(groups, "b")
    groups.learn([IS_A], types, asked)
    assert groups.flags(IS_A).tolist() == [1, 0]
    assert groups.flags(others[0]).size == 0


@pytest.mark.parametrize("keys", [(K, X), (X, K)])
def test_numbers_stay_with_keys_of_several_columns(keys: tuple[Expr, ...]) -> None:
    groups = Groups(keys)
    columns: dict[Expr, pa.Array] = {K: pa.array(["a", "b", "a", None]), X: pa.array([1.0, 1.0, float("nan"), None])}
    first = groups.encode([columns[k] for k in keys], 4).tolist()
    assert sorted(first) == [0, 1, 2, 3]
    assert groups.encode([columns[k].take(pa.array([2, 0])) for k in keys], 2).tolist() == [first[2], first[0]]
