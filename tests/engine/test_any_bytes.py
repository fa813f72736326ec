"""Any bytes in any file of a home: every command gives the right answer or one of our errors, never
another.

Files are flipped, cut, zeroed, made longer, removed, replaced by a folder, swapped.  And since a
checksum only says that a record is whole, records are also written again with other JSON values in
them, and sealed as they should be.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.errors import HeadraceError
from headrace.runtime.doctor import examine
from tests.streams import EPOCH_US, write_file

DDL = "k STRING, n INT, x DOUBLE, ts TIMESTAMP"
QUERIES = {
    "sums": "SELECT k, sum(x) AS s, avg(n) AS a FROM s GROUP BY k, window(ts, '10 seconds', '5 seconds')",
    "kinds": "SELECT count(DISTINCT n) AS c, median(x) AS m FROM s WHERE n > 1 GROUP BY window(ts, '10 seconds')",
    "each": "SELECT upper(k) AS k, x FROM s WHERE k LIKE 'b%'",
    "high": "SELECT k, x FROM s WHERE x BETWEEN 2 AND 5",
    "pairs": "SELECT s.k AS sk, t.n AS tn FROM s JOIN t ON s.x - t.x BETWEEN -0.5 AND 0.5",
}
Looks = dict[str, Any]
ODD: tuple[Any, ...] = (
    None,
    True,
    "",
    "no",
    "é\ud800",
    -1,
    0,
    1,
    2**31,
    2**63,
    10**40,
    -2.5,
    1e308,
    float("nan"),
    [],
    {},
    [[]],
    {"a": 1},
    [None],
    "../../etc",
    "x" * 5_000,
)


# -- a home, and what it says ----------------------------------------------------------------------


def rows(index: int) -> pa.Table:
    count = 12
    times = [EPOCH_US + (index * 12 + i) * 1_000_000 for i in range(count)]
    return pa.table(
        {
            "k": pa.array(["abc"[i % 3] for i in range(count)]),
            "n": pa.array([i % 5 for i in range(count)], pa.int32()),
            "x": pa.array([i * 0.7 + index for i in range(count)]),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


@dataclass
class Patient:
    folder: Path
    spark: SparkSession

    @property
    def race(self) -> Path:
        return self.folder / "race"

    def restore(self, which: str = "good") -> Path:
        shutil.rmtree(self.race, ignore_errors=True)
        shutil.copytree(self.folder / which, self.race)
        return self.race

    def run(self) -> None:
        with headrace.Engine(self.race, spark=self.spark) as eng:
            eng.run()


@pytest.fixture(scope="module")
def patient(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    folder = tmp_path_factory.mktemp("bytes")
    for name in ("src_s", "src_t"):
        write_file(folder / name, 0, rows(0))
    eng = headrace.Engine(folder / "race", spark=spark)
    eng.create_stream(
        "s", f"parquet:{folder / 'src_s'}?maxFilesPerTrigger=1", schema=DDL, time="ts"
    )
    eng.create_table("t", f"parquet:{folder / 'src_t'}?maxFilesPerTrigger=1", schema=DDL, key="k")
    eng.add_many(QUERIES)
    shutil.copytree(folder / "race", folder / "young")  # not a round yet
    for index in (1, 2):
        eng.run()
        write_file(folder / "src_s", index, rows(index))
    eng.run()
    eng.close()
    shutil.copytree(folder / "race", folder / "good")
    return Patient(folder, spark)


ASKS: dict[str, Callable[[headrace.Engine], Any]] = {
    "list": lambda eng: [(q.name, q.family, q.state, q.answers) for q in eng.queries()],
    **{f"results {n}": lambda eng, n=n: eng.results(n).to_pylist() for n in QUERIES},  # type: ignore[misc]
    **{f"watch {n}": lambda eng, n=n: list(eng.watch(n, follow=False)) for n in QUERIES},  # type: ignore[misc]
}
TOLD: dict[
    str, Callable[[headrace.Engine], Any]
] = {  # texts that may say what a changed statistic says
    "explain": lambda eng: eng.explain(),
    **{f"explain {n}": lambda eng, n=n: eng.explain(n) for n in QUERIES},  # type: ignore[misc]
    "costs": lambda eng: eng.costs(),
    "notices": lambda eng: [n.affected() for n in eng.notices("s")],
    "add": lambda eng: eng.add(
        "SELECT max(n) AS m FROM s GROUP BY window(ts, '5 seconds')", name="more"
    ),
    "drop": lambda eng: eng.drop("sums"),
}


def look(race: Path) -> tuple[Looks, list[str]]:
    """What every command says, errors by their code; and the errors that are none of ours."""
    seen: Looks = {}
    wrong: list[str] = []

    def ask(name: str, call: Callable[[], Any]) -> None:
        try:
            seen[name] = call()
        except HeadraceError as error:
            if not (error.what and error.code and (error.hint or error.choices)):
                wrong.append(f"{name}: no next step: {error}")
            seen[name] = error
        except Exception as error:  # noqa: BLE001 - these are what we look for
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")

    for name, call in (ASKS | TOLD).items():
        ask(name, lambda call=call: call(headrace.Engine(race)))  # type: ignore[misc]
    ask("doctor", lambda: [f.level for f in examine(race)])
    return seen, wrong


def judged(race: Path, good: Looks, is_sealed: bool = False) -> list[str]:
    """What is wrong: errors of other kinds, and answers that differ in silence."""
    seen, wrong = look(race)
    if not is_sealed:
        answered = [
            name for name in ASKS if name in seen and not isinstance(seen[name], HeadraceError)
        ]
        wrong += [f"{name} differs" for name in answered if seen[name] != good[name]]
    return wrong


# -- bytes -----------------------------------------------------------------------------------------


def flip(path: Path, draw: Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(bytes(data))


def cut(path: Path, draw: Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size + 1))


def zero(path: Path, draw: Random) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def extend(path: Path, draw: Random) -> None:
    with path.open("ab") as file:
        file.write(draw.randbytes(draw.choice([1, 40, 5_000])))


def remove(path: Path, draw: Random) -> None:
    path.unlink()


def become_a_folder(path: Path, draw: Random) -> None:
    path.unlink()
    path.mkdir()


def swap(path: Path, draw: Random) -> None:
    others = [p for p in files_below(path.parent) if p != path]
    if not others:
        return
    other = draw.choice(others)
    aside = path.with_name("aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


DAMAGES = (flip, cut, zero, extend, remove, become_a_folder, swap)


def files_below(place: Path) -> list[Path]:
    return [p for p in sorted(place.rglob("*")) if p.is_file()]


def damage_somewhere(race: Path, draw: Random) -> str:
    damage, file = draw.choice(DAMAGES), draw.choice(files_below(race))
    damage(file, draw)
    return f"{damage.__name__} {file.relative_to(race)}"


# -- values ----------------------------------------------------------------------------------------


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inside = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in inside:
        yield from places(value, (*path, key))


def mutated(data: Any, draw: Random) -> tuple[Any, str]:
    """The same data with one place changed, taken away, or doubled."""
    data = json.loads(json.dumps(data))
    path = draw.choice(list(places(data))[1:] or [()])
    if not path:
        return draw.choice(ODD), "all of it"
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    how = draw.choice(["odd", "odd", "odd", "gone", "other"])
    if how == "gone":
        del holder[path[-1]]
    elif how == "other" and isinstance(holder, dict):
        holder["unheard_of"] = holder.pop(path[-1])
    else:
        holder[path[-1]] = draw.choice(ODD)
    return data, f"{how} {'.'.join(map(str, path))}"


def sealed(body: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(body), body)


def dumped(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode("utf-8", "surrogatepass")


def reseal_catalog(race: Path, draw: Random) -> str:
    log = race / "catalog.log"
    lines = log.read_bytes().splitlines()
    at = draw.randrange(len(lines))
    data, how = mutated(json.loads(lines[at].partition(b" ")[2]), draw)
    lines[at] = sealed(dumped(data)).rstrip(b"\n")
    log.write_bytes(b"\n".join(lines) + b"\n")
    return f"record {at + 1}: {how}"


def reseal_manifest(race: Path, draw: Random) -> str:
    path = draw.choice(sorted(race.glob("streams/*/rounds/*.json")))
    data, how = mutated(json.loads(path.read_bytes().partition(b" ")[2]), draw)
    path.write_bytes(sealed(dumped(data)))
    return f"{path.relative_to(race)}: {how}"


def reseal_join_round(race: Path, draw: Random) -> str:
    """Its checksum is in the manifest."""
    path = draw.choice(sorted(race.glob("streams/*/kept/*/round.json")))
    data, how = mutated(json.loads(path.read_bytes()), draw)
    replace_committed(race, path, dumped(data))
    return f"{path.relative_to(race)}: {how}"


def reseal_panes(race: Path, draw: Random) -> str:
    path = draw.choice(sorted(race.glob("streams/*/panes/*.arrow")))
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    data, how = mutated(json.loads(table.schema.metadata[b"headrace"]), draw)
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata({b"headrace": dumped(data)})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    replace_committed(race, path, sink.getvalue().to_pybytes())
    return f"{path.relative_to(race)}: {how}"


def replace_committed(race: Path, path: Path, data: bytes) -> None:
    """Another content, and a manifest that says so."""
    path.write_bytes(data)
    inside = path.relative_to(race).as_posix()
    for manifest in race.glob("streams/*/rounds/*.json"):
        found = json.loads(manifest.read_bytes().partition(b" ")[2])
        for mark in (*found["files"], *found["held"]):
            if mark["path"] == inside:
                mark.update(size=len(data), crc=zlib.crc32(data))
                manifest.write_bytes(sealed(dumped(found)))


# -- the tests -------------------------------------------------------------------------------------


def test_the_good_home_has_answers(patient: Patient) -> None:
    seen, wrong = look(patient.restore())
    assert not wrong
    assert not [name for name, said in seen.items() if isinstance(said, HeadraceError)]
    assert all(seen[f"results {name}"] for name in QUERIES)


def damaged_homes(patient: Patient, draw: Random, count: int) -> list[str]:
    good, _ = look(patient.restore())
    wrong = []
    for _ in range(count):
        how = damage_somewhere(patient.restore(), draw)
        wrong += [f"{how} → {what}" for what in judged(patient.race, good)]
    return wrong


RESEALS = (
    (reseal_catalog, "young"),
    (reseal_manifest, "good"),
    (reseal_join_round, "good"),
    (reseal_panes, "good"),
)


def resealed_homes(patient: Patient, draw: Random, count: int) -> list[str]:
    wrong = []
    for number in range(count):
        reseal, which = RESEALS[number % len(RESEALS)]
        how = reseal(patient.restore(which), draw)
        wrong += [f"{how} → {what}" for what in judged(patient.race, {}, is_sealed=True)]
    return wrong


def runs(patient: Patient, draw: Random, count: int) -> list[str]:
    """`run` too: Spark reads the home as well."""
    wrong = []
    for number in range(count):
        if number % 2:
            reseal, which = draw.choice(RESEALS)
            how = reseal(patient.restore(which), draw)
        else:
            how = damage_somewhere(patient.restore(), draw)
        try:
            patient.run()
        except HeadraceError:
            continue
        except Exception as error:  # noqa: BLE001 - these are what we look for
            wrong.append(f"{how} → run: {type(error).__name__}: {str(error)[:300]}")
    return wrong


def test_damaged_bytes(patient: Patient, seed: int) -> None:
    wrong = damaged_homes(patient, Random(seed), 25)
    assert not wrong, "\n".join(wrong)


def test_records_that_were_sealed_again(patient: Patient, seed: int) -> None:
    wrong = resealed_homes(patient, Random(seed), 32)
    assert not wrong, "\n".join(wrong)


def test_runs_of_damaged_homes(patient: Patient, seed: int) -> None:
    wrong = runs(patient, Random(seed), 4)
    assert not wrong, "\n".join(wrong)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fuzz", [damaged_homes, resealed_homes], ids=["bytes", "records"])
def test_many_damaged_homes(
    patient: Patient, seed: int, fuzz: Callable[[Patient, Random, int], list[str]]
) -> None:
    wrong = fuzz(patient, Random(seed), 1_500)
    assert not wrong, "\n".join(wrong)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_many_runs_of_damaged_homes(patient: Patient, seed: int) -> None:
    wrong = runs(patient, Random(seed), 120)
    assert not wrong, "\n".join(wrong)


# -- what is lost is noticed by all alike ----------------------------------------------------------

WRITES = ("add", "drop")


def lose_the_end(race: Path) -> str:
    log = race / "catalog.log"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    return "CATALOG_LOST"


def lose_the_catalog(race: Path) -> str:
    (race / "catalog.log").unlink()
    return "CATALOG_LOST"


def lose_the_newest_manifest(race: Path) -> str:
    max(race.glob("streams/s/rounds/*.json")).unlink()
    return "MANIFEST_MISSING"


@pytest.mark.parametrize("lose", [lose_the_end, lose_the_catalog, lose_the_newest_manifest])
def test_readers_and_writers_notice_what_run_and_doctor_notice(
    patient: Patient, lose: Callable[[Path], str]
) -> None:
    code = lose(patient.restore())
    seen, wrong = look(patient.race)
    assert not wrong
    told = {
        name: said.code if isinstance(said, HeadraceError) else said for name, said in seen.items()
    }
    assert "bad" in told.pop("doctor")
    assert set(told.values()) == {code}, told
    with pytest.raises(HeadraceError, match=code):
        headrace.Engine(patient.race).create_stream(
            "u", "rate://5", schema="v BIGINT, ts TIMESTAMP", time="ts"
        )
    with pytest.raises(HeadraceError, match=code):
        patient.run()


def test_a_torn_note_of_the_newest_round_says_nothing(patient: Patient) -> None:
    good, _ = look(patient.restore())
    for content in (b"", b"00000", b"000000000009 00000000\n", b"x" * 40):
        race = patient.restore()
        (race / "streams" / "s" / "newest").write_bytes(content)
        assert not judged(race, good)
