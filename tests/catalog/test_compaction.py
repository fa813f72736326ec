"""A compacted log says what the log said: to who opens it, to who follows it, after kills and power
cuts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.log import BASE, PATH
from headrace.config import Config
from headrace.disk import Disk
from headrace.errors import CatalogError
from headrace.sql.bind import bind
from headrace.sql.query import Query
from tests.runtime.recording import (
    HOME,
    Model,
    Promise,
    QuickDisk,
    RecordingDisk,
    crashes,
    dropped,
    kept,
    pure_crash,
)
from tests.runtime.scenario import SQL, relation_of

RELATION = relation_of(Path("/src"))
OFTEN, NEVER = Config.of(catalog_compact_bytes=1_000), Config.of(catalog_compact_bytes=1 << 40)
Seen = dict[int, tuple[str, str | None]]


def query(name: str) -> Query:
    return bind(SQL, {"s": RELATION}, name=name, config=OFTEN)


def seen(catalog: Catalog) -> Seen:
    return {r.id: (r.name, r.quarantine) for r in catalog.queries.values()}


def is_compacted(disk: Disk) -> bool:
    return f'"do":"{BASE}"' in (disk.root / PATH).read_text(errors="replace")[:40]


def churned(disk: Disk, config: Config = OFTEN, steps: int = 12) -> Catalog:
    """One query stays, many come and go."""
    catalog = Catalog(disk, config)
    catalog.create(RELATION)
    catalog.add([query("stays"), query("odd")])
    catalog.quarantine({2: "why"})
    for n in range(steps):
        catalog.add([query(f"q{n}")])
        catalog.drop([f"q{n}"])
    return catalog


@dataclass
class Follower:
    """A process that has the catalog open, and follows what is touched as an engine does."""

    catalog: Catalog
    version: int = 0
    known: Seen = field(default_factory=dict)

    def check(self, model: Seen, marks: list[int]) -> None:
        self.catalog.refresh()
        before = self.version
        self.version, touched = self.catalog.touched(before)
        self.known = {i: own for i, own in self.known.items() if i not in touched}
        self.known |= {
            i: (own.name, own.quarantine) for i, own in touched.items() if own is not None
        }
        assert self.known == seen(self.catalog) == model
        assert {r.id for r in self.catalog.quarantined} == {
            i for i, (_, why) in model.items() if why
        }
        assert self.version == self.catalog.version == len(marks) - 1 and before <= self.version
        assert [self.catalog.mark(v) for v in range(len(marks))] == marks
        assert self.catalog.relations == {"s": RELATION}


def test_any_changes_by_several_processes(tmp_path: Path, seed: int) -> None:
    r, disk = Random(seed), QuickDisk(tmp_path)
    followers = [Follower(Catalog(disk, config)) for config in (OFTEN, OFTEN, NEVER)]
    followers[0].catalog.create(RELATION)
    model, next_id, compactions = Seen(), 1, set[str]()
    marks = [0, followers[0].catalog.mark(1) or 0]
    for step in range(120):
        by, names = r.choice(followers).catalog, {name: i for i, (name, _) in model.items()}
        match r.randrange(5) if names else 0:
            case 0 | 1:
                new = [f"q{step}_{n}" for n in range(r.randrange(1, 4))]
                by.add([query(name) for name in new])
                model |= {next_id + n: (name, None) for n, name in enumerate(new)}
                next_id += len(new)
            case 2 | 3:
                gone = r.sample(
                    list(names), r.randrange(1, len(names) + 1) if r.random() < 0.2 else 1
                )
                by.drop(gone)
                model = {i: own for i, own in model.items() if own[0] not in gone}
            case _:
                i = r.choice(list(model))
                by.refresh()
                by.quarantine({i: f"why {step}"})
                if model[i][1] is not None:
                    continue
                model[i] = (model[i][0], f"why {step}")
        marks.append(by.mark(by.version) or 0)
        for follower in [
            *(f for f in followers if r.random() < 0.3),
            Follower(Catalog(disk, OFTEN)),
        ]:
            follower.check(model, marks)
        if is_compacted(disk):
            compactions.add((tmp_path / PATH).read_text()[:40])
    for follower in followers:
        follower.check(model, marks)
    assert len(compactions) > 2
    fresh = Catalog(disk, OFTEN).queries
    assert (
        list(fresh) == list(followers[0].catalog.queries) and fresh == followers[0].catalog.queries
    )


def test_the_log_stays_as_small_as_what_stands(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    churned(QuickDisk(tmp_path / "a"), OFTEN, 200)
    churned(QuickDisk(tmp_path / "b"), NEVER, 200)
    small, large = ((tmp_path / name / PATH).stat().st_size for name in "ab")
    assert small < large / 20


def test_a_past_version_has_what_still_stands(tmp_path: Path) -> None:
    disk = QuickDisk(tmp_path)
    catalog = churned(disk)
    assert is_compacted(disk)
    assert seen_names(catalog, 2) == {"stays": None, "odd": None}
    assert seen_names(catalog, 3) == {"stays": None, "odd": "why"}
    assert seen_names(catalog, 1) == {}


def seen_names(catalog: Catalog, version: int) -> dict[str, str | None]:
    return {name: own.quarantine for name, own in catalog.at(version).items()}


def test_old_marks_are_forgotten_and_new_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.catalog.log.MARKS_KEPT", 5)
    disk = QuickDisk(tmp_path)
    before = churned(disk)
    after = Catalog(disk, OFTEN)
    known = [v for v in range(after.version + 1) if after.mark(v) is not None]
    assert is_compacted(disk) and 5 <= len(known) < after.version and known[-1] == after.version
    assert all(before.mark(v) == after.mark(v) for v in known)


def test_a_cut_or_changed_log_is_named(tmp_path: Path) -> None:
    """Cut inside what stood at its version, or a byte of it changed; a cut change is one that was
    not acknowledged."""
    disk = QuickDisk(tmp_path)
    version = churned(disk).version
    whole = (tmp_path / PATH).read_bytes()
    lines = whole.split(b"\n")
    stood = sum(len(line) + 1 for line in lines[:3])
    for size in range(1, len(whole), 7):
        (tmp_path / PATH).write_bytes(whole[:size])
        if size < len(lines[0]) + 1:
            # the ledger says that it has lost committed changes
            assert Catalog(disk, OFTEN).version == 0
        elif size < stood:
            with pytest.raises(CatalogError, match="damaged"):
                Catalog(disk, OFTEN)
        else:
            assert Catalog(disk, OFTEN).version <= version
    for place in range(0, stood, 5):
        (tmp_path / PATH).write_bytes(
            whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        )
        with pytest.raises(CatalogError) as caught:
            Catalog(disk, OFTEN)
        assert caught.value.code == "CATALOG_DAMAGED"


def test_another_log_is_told_from_a_compacted_one(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    one, other = QuickDisk(tmp_path / "a"), QuickDisk(tmp_path / "b")
    Catalog(other, OFTEN).create(replace(RELATION, name="t"))
    churned(other, steps=30)
    churned(one)
    changes = b"".join((one.root / PATH).read_bytes().splitlines(True)[3:])
    for content in ((other.root / PATH).read_bytes(), changes):
        reader = Catalog(one, OFTEN)
        was = (one.root / PATH).read_bytes()
        (one.root / PATH).write_bytes(content)
        with pytest.raises(CatalogError) as caught:
            reader.refresh()
        assert caught.value.code == "CATALOG_LOST"
        (one.root / PATH).write_bytes(was)
        assert not reader.refresh()


def test_every_power_cut_leaves_what_was_promised(tmp_path: Path) -> None:
    disk, states = record(tmp_path / HOME)
    model, checked = Model(), set[object]()
    for n, op in enumerate(disk.ops):
        for k, (crash, again) in enumerate(zip(crashes(n), crashes(n), strict=True)):
            if (key := (op.acked, model.digest(crash))) in checked:
                continue
            checked.add(key)
            model.leave(tmp_path / f"{n}.{k}", again)
            left = Catalog(QuickDisk(tmp_path / f"{n}.{k}" / HOME), OFTEN)
            assert op.acked.version <= left.version <= op.acked.version + 1, (op, again.name)
            assert seen(left) == states[left.version], (op, again.name)
        model.apply(op)
    assert len(checked) > 50


def test_a_kill_and_then_a_power_cut(tmp_path: Path) -> None:
    """Who was killed may have renamed the log without making the name safe: who appends to it next
    does."""
    disk, states = record(tmp_path / HOME)
    kill, cut = pure_crash(kept, True), pure_crash(dropped, False)
    model = Model()
    for n, op in enumerate(disk.ops):
        if op.acked.version > 1:
            model.leave(tmp_path / str(n), kill)
            next_one = RecordingDisk(tmp_path / str(n) / HOME)
            catalog = Catalog(next_one, NEVER)
            catalog.add([query("next")])
            both = Model()
            for done in (*disk.ops[:n], *next_one.ops):
                both.apply(done)
            both.leave(tmp_path / f"{n}.cut", cut)
            left = Catalog(QuickDisk(tmp_path / f"{n}.cut" / HOME), OFTEN)
            assert "next" in left.queries and left.version == catalog.version, op
        model.apply(op)
    assert states


def record(root: Path) -> tuple[RecordingDisk, dict[int, Seen]]:
    """What a life with compactions does to the disk, and what stood at each version."""
    disk, states = RecordingDisk(root), {0: Seen()}
    disk.mkdir(".")
    disk.sync("..")
    catalog = Catalog(disk, OFTEN)
    steps: list[Callable[[], None]] = [
        partial(catalog.create, RELATION),
        partial(catalog.add, [query("stays")]),
    ]
    for n in range(6):
        steps += [partial(catalog.add, [query(f"q{n}")]), partial(catalog.drop, [f"q{n}"])]
    for step in steps:
        step()
        states[catalog.version] = seen(catalog)
        disk.acked = replace(Promise(), version=catalog.version)
    assert any(op.verb == "rename" for op in disk.ops)
    return disk, states


WORKER = """
import sys
from pathlib import Path
from tests.catalog.test_compaction import OFTEN, query
from headrace.catalog.catalog import Catalog
from headrace.disk import Disk
catalog = Catalog(Disk(Path(sys.argv[1])), OFTEN)
for n in range(int(sys.argv[3])):
    name = f"{sys.argv[2]}{n}"
    catalog.add([query(name)])
    print("added", name, catalog.query(name).id, flush=True)
    if n % 5:
        catalog.drop([name])
        print("dropped", name, flush=True)
"""


def test_real_processes_and_one_that_is_killed(tmp_path: Path, seed: int) -> None:
    disk = Disk(tmp_path)
    watcher = Follower(Catalog(disk, OFTEN))
    watcher.catalog.create(RELATION)
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": f"{root}:{root / 'src'}"}
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    workers = {}
    for name in "xyz":
        with (tmp_path / f"{name}.txt").open("w") as output:
            steps = "6000" if name == "z" else "60"  # z is killed long before it is done
            workers[name] = subprocess.Popen([*command, name, steps], env=env, stdout=output)
    lines_left = Random(seed).randrange(5, 60)
    while (tmp_path / "z.txt").read_text().count("\n") < lines_left and workers["z"].poll() is None:
        watcher.catalog.refresh()
        time.sleep(0.005)
    workers["z"].send_signal(signal.SIGKILL)
    for name, worker in workers.items():
        assert worker.wait(timeout=200) == (-signal.SIGKILL if name == "z" else 0)
    said = {name: (tmp_path / f"{name}.txt").read_text() for name in workers}
    found = Catalog(disk, OFTEN)
    watcher.check(seen(found), [found.mark(v) or 0 for v in range(found.version + 1)])
    lines = [line.split() for text in said.values() for line in text.splitlines()]
    ids = [int(line[2]) for line in lines if line[0] == "added" and len(line) == 3]
    gone = {line[1] for line in lines if line[0] == "dropped"}
    stay = {line[1] for line in lines if line[0] == "added"} - gone
    last = {
        line.split()[1] for line in said["z"].splitlines()[-1:]
    }  # what came of its next step nobody knows
    assert len(ids) == len(set(ids)) and not gone & found.queries.keys()
    assert stay - last <= found.queries.keys() and len(found.queries.keys() - stay) <= 1
    assert is_compacted(disk)
