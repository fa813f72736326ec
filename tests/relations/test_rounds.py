"""What a round says of the rounds before it, and records of before."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headrace.relations.rounds import ALL, MORE, KeptRound, first_turn, needed_begins

BEGINS = [(1, 4), (3, 9), (8, 12), (9, 30)]


@pytest.mark.parametrize(
    ("version", "turn"), [(0, 4), (1, 4), (2, 9), (8, 12), (9, 30), (10, None)]
)
def test_a_query_begins_with_the_first_turn_that_knows_of_it(
    version: int, turn: int | None
) -> None:
    assert first_turn(BEGINS, version) == turn


def test_only_what_tells_when_queries_began_is_kept() -> None:
    kept = needed_begins(BEGINS, [2, 3, 9, 11])
    assert kept == [(3, 9), (9, 30)]
    assert [first_turn(kept, v) for v in (2, 3, 9, 11)] == [9, 9, 30, None]


def test_a_record_from_before_tables_were_written_anew_while_joined_is_read() -> None:
    done = KeptRound(3, 2, 5, (), {"s": 1}, holds=MORE)
    old = json.loads(done.pack())
    del old["changes"], old["begins"]
    assert KeptRound.unpack(json.dumps(old).encode(), 5) == done


def test_a_record_that_tells_two_things_is_damaged() -> None:
    whole = KeptRound(3, 2, 5, (), holds=ALL, begins=((1, 4),))
    assert KeptRound.unpack(whole.pack(), 5) == whole
    with pytest.raises(ValueError, match="only changes"):
        KeptRound.unpack(replace(whole, holds=MORE).pack(), 5)
