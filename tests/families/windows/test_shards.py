"""Shards without Spark: what is decided, and the memory that workers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.config import Config
from headrace.families.windows.plan import Share, share
from headrace.families.windows.shards.choice import Load, Sharding, choose, is_sharded
from headrace.families.windows.shards.state_files import (
    APART_BYTES,
    Held,
    StateFiles,
    make_room,
    remove,
)
from headrace.sql.bind import bind
from headrace.values import BIGINT, DOUBLE, STRING, TIMESTAMP, Field, Relation

RELATION = Relation(
    "s",
    "none:",
    (Field("k", BIGINT), Field("side", STRING), Field("x", DOUBLE), Field("ts", TIMESTAMP)),
    "ts",
)


def asked(keys: str, what: str = "sum(x)") -> Share:
    sql = f"SELECT {what} AS a FROM s GROUP BY {keys}, window(ts, '10 seconds')"
    found = share(bind(sql, {"s": RELATION}, name="q", config=Config()), RELATION)
    assert isinstance(found, Share)
    return found


# -- which queries are in shards ---------------------------------------------------------------------


def test_a_query_is_sharded_if_it_groups_by_the_keys() -> None:
    assert is_sharded(asked("k"), ["k"])
    assert is_sharded(asked("k, side"), ["k"])
    assert not is_sharded(asked("side"), ["k"])
    assert not is_sharded(asked("k"), ["k", "side"])
    assert not is_sharded(asked("k + 1"), ["k"]), "its groups are not told by k"
    assert not is_sharded(asked("x"), ["x"]), "equal doubles may differ in their bits"
    assert not is_sharded(asked("k", "median(x)"), ["k"]), "sketches stay with the driver"


def chosen(shares: list[Share], loads: dict[frozenset[str], Load] | None = None) -> Any:
    found = choose(shares, loads or {}, 8, "why")
    return None if found is None else found.keys


def test_keys_are_those_that_take_most_off_the_driver() -> None:
    both, k, side = frozenset(("k", "side")), frozenset("k"), frozenset(("side",))
    assert chosen([asked("k"), asked("k, side")]) == ("k",), "it covers both"
    assert chosen([asked("side"), asked("k")]) == ("k",), "of equals, the first by name"
    loads = {k: Load(100_000, 1), side: Load(100_000, 9)}
    assert chosen([asked("side"), asked("k")], loads) == ("side",)
    few = {k: Load(1_000_000, 9), side: Load(2, 1), both: Load(2_000_000, 9)}
    assert chosen([asked("side"), asked("k, side")], few) == ("k", "side")
    assert chosen([asked("side")], {side: Load(2, 1)}) is None, "two groups are two shards at most"
    assert chosen([asked("x"), asked("k", "count(DISTINCT x)")]) is None


def test_the_driver_answers_what_began_before() -> None:
    own, ten = Sharding(("k",), 8, "", begins_us=1_000, last_id=5), asked("k")
    assert own.is_handed_over(5, ten, 10_000_999) and own.is_handed_over(5, ten, None)
    assert not own.is_handed_over(5, ten, 10_001_000), "the last such window has closed"
    assert not own.is_handed_over(6, ten, 0), "it came later"
    assert not Sharding(("k",), 8, "").is_handed_over(5, ten, 0)


# -- memory that workers share -----------------------------------------------------------------------


def state(size: int = APART_BYTES) -> dict[str, Any]:
    array = np.arange(size, dtype=np.int64)
    return {"a": array, "same": array, "few": np.arange(3), "text": pa.array(["x" * 90] * size)}


def test_a_state_is_worked_on_in_place(tmp_path: Path) -> None:
    files = StateFiles([tmp_path])
    assert files.put("one", Held(state()))
    held = files.take("one")
    assert held is not None and files.take("one") is None, "one worker at a time has it"
    assert held.state["a"] is held.state["same"]
    held.state["a"][7] = -1
    apart = {path.name for path in tmp_path.glob("*.array")}
    assert files.put("two", held)
    assert {path.name for path in tmp_path.glob("*.array")} == apart, "nothing was copied"
    held.state["few"] = np.arange(9)
    again = files.take("two")
    assert again is not None and again.state["a"][7] == -1
    assert again.state["few"].size == 3, "what is done after it was left is lost"
    assert again.state["text"][5].as_py() == "x" * 90


def test_what_is_new_is_copied_and_what_is_gone_removed(tmp_path: Path) -> None:
    files = StateFiles([tmp_path])
    files.put("one", Held(state()))
    held = files.take("one")
    assert held is not None
    held.state["a"] = held.state["same"] = np.append(held.state["a"], 1)
    assert files.put("two", held)
    assert len(list(tmp_path.glob("*.array"))) == 3 and not list(tmp_path.glob("*.taken"))
    held = files.take("two")
    assert held is not None and held.state["a"].size == APART_BYTES + 1


def test_a_state_of_another_name_or_torn_is_not_there(tmp_path: Path) -> None:
    files = StateFiles([tmp_path])
    files.put("one", Held(state()))
    assert files.take("two") is None
    (tmp_path / "one.state").write_bytes((tmp_path / "one.state").read_bytes()[:50])
    assert files.take("one") is None
    files.put("two", Held(state()))
    next(tmp_path.glob("*.array")).unlink()
    assert files.take("two") is None


def test_what_does_not_fit_in_one_place_goes_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, other = tmp_path / "full", tmp_path / "other"
    full.mkdir()
    other.mkdir()
    files, allocate = StateFiles([full, other]), __import__("os").posix_fallocate

    def allocated(number: int, start: int, size: int) -> None:
        if "full" in str(Path(f"/proc/self/fd/{number}").resolve()):
            raise OSError(28, "No space left on device")
        allocate(number, start, size)

    monkeypatch.setattr("os.posix_fallocate", allocated)
    assert files.put("one", Held(state()))
    assert not list(full.iterdir())
    held = files.take("one")
    assert held is not None and held.state["a"].size == APART_BYTES
    monkeypatch.setattr("os.posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    assert not StateFiles([full]).put("two", Held(state()))
    assert not list(full.iterdir())


def test_states_of_earlier_runs_are_removed(tmp_path: Path) -> None:
    old = make_room(tmp_path, "stream", "old", 0)
    other = make_room(tmp_path, "another", "old", 0)
    new = make_room(tmp_path, "stream", "new", 1)
    assert new.is_dir() and other.is_dir() and not old.exists()
    assert new.parent.stat().st_mode & 0o077 == 0
    remove(tmp_path, "stream", "new")
    assert not new.exists()
