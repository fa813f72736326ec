"""Keys as numbers, and facts of keys: asked once of each key, whatever rounds and queries come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.families.windows.rollup.codes import ROOM_MIN, Pairs, codes_for
from headrace.families.windows.rollup.groups import FACTS_MIN, Groups
from headrace.sql.tree import Call, Column, Expr, Literal
from headrace.values import BIGINT, BOOLEAN, DOUBLE, STRING

K, X, N = Column("k", STRING), Column("x", DOUBLE), Column("n", BIGINT)
UPPER = Call("upper", (K,), STRING)
IS_A = Call("=", (K, Literal("a", STRING)), BOOLEAN)
TYPES: dict[Expr, pa.DataType] = {K: pa.string(), X: pa.float64()}


class Asked:
    """Evaluates the two facts, and remembers of which keys."""

    def __init__(self) -> None:
        self.keys: list[list[object]] = []

    def __call__(
        self, keys: Sequence[Expr], values: Sequence[pa.Array], facts: Sequence[Expr]
    ) -> list[pa.Array]:
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
    columns: dict[Expr, pa.Array] = {
        K: pa.array(["a", "b", "a", None]),
        X: pa.array([1.0, 1.0, float("nan"), None]),
    }
    first = groups.encode([columns[k] for k in keys], 4).tolist()
    assert sorted(first) == [0, 1, 2, 3]
    assert groups.encode([columns[k].take(pa.array([2, 0])) for k in keys], 2).tolist() == [
        first[2],
        first[0],
    ]


KEY_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", None]),
        st.sampled_from([0.5, float("nan"), None]),
        st.integers(-2, 2) | st.none(),
    ),
    max_size=20,
)


@given(st.lists(KEY_ROWS, max_size=5), st.permutations([0, 1, 2]), st.integers(0, 3))
def test_a_number_for_each_key_and_the_same_again(
    rounds: list[list[tuple[object, ...]]], order: list[int], width: int
) -> None:
    """Against a dict of tuples, whatever the number of keys and the order of rounds."""
    kinds = [(K, pa.string()), (X, pa.float64()), (N, pa.int64())]
    places = order[:width]
    groups, coarser = (
        Groups(tuple(kinds[p][0] for p in places)),
        Groups(tuple(kinds[p][0] for p in places[:1])),
    )
    keys: dict[tuple[str, ...], int] = {}
    for rows in rounds:
        columns = [pa.array([row[p] for row in rows], kinds[p][1]) for p in places]
        found = groups.encode(columns, len(rows)).tolist()
        asked = [tuple(str(row[p]) for p in places) for row in rows]
        assert all(keys.setdefault(key, n) == n for key, n in zip(asked, found, strict=True))
    if not keys:
        return
    assert sorted(keys.values()) == list(range(len(groups)))
    shown = [array.to_pylist() for array in groups.arrays([kinds[p][1] for p in places])]
    assert all(tuple(str(column[n]) for column in shown) == key for key, n in keys.items())
    into, firsts = groups.into(coarser).tolist(), dict[str, int]()
    for key, number in keys.items():
        assert into[number] == (firsts.setdefault(key[0], into[number]) if key else 0)
    assert sorted(firsts.values()) == list(range(len(coarser))) or not places


def test_a_table_of_pairs_grows(seed: int) -> None:
    pairs, rng = Pairs(), np.random.default_rng(seed)
    known: dict[tuple[int, int], int] = {}
    for size in (0, 1, ROOM_MIN, 5 * ROOM_MIN, 100_000):
        left, right = rng.integers(0, 1 << 31, size), rng.integers(0, 4, size)
        left[: size // 2] %= 100
        numbers, firsts = pairs.number(left, right)
        before = len(known)
        wanted = [
            known.setdefault(pair, len(known))
            for pair in zip(left.tolist(), right.tolist(), strict=True)
        ]
        assert numbers.tolist() == wanted and len(pairs) == len(known)
        assert [wanted[row] for row in firsts] == list(range(before, len(known)))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["", "a", "b", "aa", "é", None, "\0", "a" * 100]),
        (pa.int32(), [-1, 0, None, 2**31 - 1]),
        (pa.int64(), [-1, -(2**63), 2**63 - 1]),
        (pa.bool_(), [True, None, False]),
        (pa.binary(), [b"", b"x", None]),
    ],
)
def test_values_and_their_codes(kind: pa.DataType, values: list[object], seed: int) -> None:
    codes, rng, known = codes_for(kind), np.random.default_rng(seed), dict[object, int]()
    for size in (0, 1, 3, 50):
        column = pa.array([values[i] for i in rng.integers(0, len(values), size + 2)], kind).slice(
            1, size
        )
        found = codes.encode(column).tolist()
        assert all(
            known.setdefault(v, c) == c for v, c in zip(column.to_pylist(), found, strict=True)
        )
        assert sorted(known.values()) == list(range(len(codes)))
    assert codes.values().type == kind
    assert all(codes.values()[code].as_py() == value for value, code in known.items())


def test_many_texts() -> None:
    codes = codes_for(pa.string())
    texts = [f"user {i % 70_000}" for i in range(100_000)]
    first = codes.encode(pa.array(texts))
    assert len(codes) == 70_000
    assert codes.values().take(pa.array(first)).to_pylist() == texts
    assert codes.encode(pa.array(texts[::-1])).tolist() == first[::-1].tolist()
