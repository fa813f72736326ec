"""Homes of format 5, as those of format 6.

What has changed: rows that are kept lie in `kept/`, not in `joins/`; a table has no snapshot beside
them; what joins say of a round is a note in its record; figures of families are theirs; queries
whose answers change have a log of changes, and their present answer beside it.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog.catalog import Catalog, Registered
from headrace.config import Config
from headrace.disk import Disk
from headrace.evaluation.arrow import arrow_type
from headrace.migration.figures_5 import figures_of_format_5
from headrace.relations.row_files import COMES, KIND, SIGN, WAS, write_table
from headrace.values import Relation

Record = dict[str, Any]


@dataclass(slots=True)
class Stream:
    """The folder of a stream or table, and its manifests by round."""

    root: Path
    folder: str
    relation: Relation
    manifests: dict[int, Record] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        return self.root / self.folder

    def mark(self, path: str) -> Record:
        data = (self.root / path).read_bytes()
        return {"path": path, "size": len(data), "crc": zlib.crc32(data)}


def to_format_6(root: Path) -> list[str]:
    catalog = Catalog(Disk(root), Config())
    streams = list(_streams(root, catalog))
    turn = max((_newest_turn(stream) for stream in streams), default=0)
    done = []
    for stream in streams:
        _move_kept(stream)
        if stream.relation.is_table and _drop_snapshots(stream, turn + 1):
            turn += 1
        known = {own.id: own for own in (*catalog.queries.values(), *catalog.quarantined)}
        for registered in known.values():
            if registered.query.source == stream.relation.name and _is_changing(
                registered, stream.relation
            ):
                _keep_present(stream, registered)
        for manifest in stream.manifests.values():
            manifest["stats"] = figures_of_format_5(manifest["stats"])
            _write_manifest(stream, manifest)
        done.append(f"{stream.relation.name}: {len(stream.manifests):,} rounds")
    return done


def _streams(root: Path, catalog: Catalog) -> Iterator[Stream]:
    from headrace.runtime.home import Home

    home = Home.__new__(Home)  # its format is the one before: only where things lie is asked
    home.root, home.disk = root, Disk(root)
    for name, relation in catalog.relations.items():
        stream = Stream(root, home.stream_folder(name), relation)
        for path in sorted((stream.place / "rounds").glob("*.json")):
            crc, _, body = path.read_bytes().rstrip(b"\n").partition(b" ")
            if crc != b"%08x" % zlib.crc32(body):
                raise _damaged(path)
            stream.manifests[int(path.stem)] = json.loads(body)
        yield stream


def _damaged(path: Path) -> Exception:
    from headrace.runtime.ledger import damaged

    return damaged(path, "does not match its checksum")


def _write_manifest(stream: Stream, manifest: Record) -> None:
    body = json.dumps(manifest, separators=(",", ":")).encode()
    path = stream.place / "rounds" / f"{manifest['round_id']:012d}.json"
    path.write_bytes(b"%08x %s\n" % (zlib.crc32(body), body))


# -- rows ------------------------------------------------------------------------------------------


def _newest_turn(stream: Stream) -> int:
    paths = (stream.place / "joins").glob("*/round.json")
    return max((json.loads(path.read_bytes())["tick"] for path in paths), default=0)


def _move_kept(stream: Stream) -> None:
    """Records of rounds in their new place and form, and manifests that say so."""
    old, new = f"{stream.folder}/joins/", f"{stream.folder}/kept/"
    if (stream.place / "joins").is_dir():
        (stream.place / "joins").rename(stream.place / "kept")
    for path in (stream.place / "kept").glob("*/round.json"):
        path.write_text(_moved(json.dumps(_record(json.loads(path.read_bytes()))), old, new))
    for manifest in stream.manifests.values():
        for mark in manifest["files"]:
            mark["path"] = _moved(mark["path"], old, new)
            is_there = (stream.root / mark["path"]).exists()
            if mark["path"].endswith("/round.json") and is_there:
                mark.update(stream.mark(mark["path"]))
        if "joins" in manifest["keep"]:
            manifest["keep"]["kept"] = manifest["keep"].pop("joins")


def _moved(text: str, old: str, new: str) -> str:
    return text.replace(old, new)


def _record(found: Record) -> Record:
    notes = {name: found.pop(name) for name in ("seen", "written", "odd", "rates")}
    turn = found.pop("tick")
    return {**found, "turn": turn, "notes": {"joins": notes} if notes["seen"] else {}}


def _drop_snapshots(stream: Stream, turn: int) -> bool:
    """A table is what its row files hold.  One that had too many rows to be joined had none, or not
    all: they are made of its newest snapshot.  Whether the newest round has a new record."""
    newest = stream.manifests[max(stream.manifests)] if stream.manifests else None
    snapshot = None if newest is None else newest["keep"].get("table")
    is_made = newest is not None and snapshot is not None and not _has_rows(stream, newest)
    if is_made:
        assert newest is not None and snapshot is not None
        _keep_snapshot(stream, newest, stream.manifests[snapshot], turn)
    for manifest in stream.manifests.values():
        manifest["keep"].pop("table", None)
        manifest["files"] = [m for m in manifest["files"] if "/table/" not in m["path"]]
    shutil.rmtree(stream.place / "table", ignore_errors=True)
    return is_made


def _has_rows(stream: Stream, newest: Record) -> bool:
    """Whether the newest record that says that all rows are there is not followed by a gap."""
    first = newest["keep"].get("kept", newest["round_id"] + 1)
    has_all = False
    for number in sorted(n for n in stream.manifests if n >= first):
        path = stream.place / "kept" / f"{number:012d}" / "round.json"
        if path.exists():
            has_all = json.loads(path.read_bytes())["holds"] != "none"
    return has_all


def _keep_snapshot(stream: Stream, newest: Record, held_by: Record, turn: int) -> None:
    parts = [m["path"] for m in held_by["files"] if "/table/" in m["path"]]
    fields = stream.relation.fields
    schema = pa.schema([(f.name, arrow_type(f.type)) for f in fields])
    tables = [pq.read_table(stream.root / path, partitioning=None) for path in parts]
    rows = pa.concat_tables([t.select(schema.names).cast(schema) for t in tables])
    columns = {f.name: rows.column(f.name) for f in fields}
    columns[KIND] = pa.array(np.zeros(rows.num_rows, np.int8))
    columns[SIGN] = pa.array(np.full(rows.num_rows, COMES, np.int8))
    for name, kind in zip(WAS, (pa.int64(), pa.int32(), pa.int32()), strict=True):
        columns[name] = pa.nulls(rows.num_rows, kind)
    number = newest["round_id"]
    folder = f"{stream.folder}/kept/{number:012d}"
    (stream.root / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    path = f"{folder}/00000000.migrated.rows.arrow"
    size, crc = write_table(stream.root / path, pa.table(columns).combine_chunks())
    file = {
        "path": path,
        "round_id": number,
        "part": 0,
        "rows": rows.num_rows,
        "growth": rows.num_rows,
        "newest_us": None,
        "size": size,
        "crc": crc,
    }
    record = {"turn": turn, "round_id": number, "version": 0, "files": [file], "holds": "all"}
    (stream.root / folder / "round.json").write_text(json.dumps(record))
    newest["files"] = [m for m in newest["files"] if not m["path"].startswith(f"{folder}/")]
    newest["files"] += [stream.mark(path), stream.mark(f"{folder}/round.json")]
    newest["keep"]["kept"] = number


# -- answers ---------------------------------------------------------------------------------------


def _is_changing(registered: Registered, relation: Relation) -> bool:
    """Whether its whole answer replaced the one before: of what plain Spark answered."""
    query = registered.query
    if query.joined is not None:
        return False
    return relation.is_table or (bool(query.grouped) and query.window is None)


def _keep_present(stream: Stream, registered: Registered) -> None:
    """The newest whole answer is the present one, and the first entry of the log of changes; those
    it had replaced go."""
    answers = {
        number: [m for m in manifest["files"] if f".plain/{registered.id}/" in m["path"]]
        for number, manifest in stream.manifests.items()
    }
    answered = [number for number, marks in answers.items() if marks]
    if not answered:
        return
    newest = stream.manifests[max(stream.manifests)]
    for number in answered:
        manifest = stream.manifests[number]
        for part, mark in enumerate(answers[number]):
            manifest["files"].remove(mark)
            if number == answered[-1]:
                kept = f"present/{number:012d}.{registered.id}.{part:06d}.parquet"
                path = f"{stream.folder}/{kept}"
                (stream.root / path).parent.mkdir(mode=0o700, exist_ok=True)
                shutil.copy2(stream.root / mark["path"], stream.root / path)
                newest["held"].append(stream.mark(path))
                manifest["files"].append(_as_changes(stream, mark))
            else:
                (stream.root / mark["path"]).unlink()


def _as_changes(stream: Stream, mark: Mapping[str, Any]) -> Record:
    """An answer of the format before as changes: all of its rows come."""
    path = PurePosixPath(mark["path"])
    rows = pq.read_table(stream.root / path, partitioning=None)
    came = pa.array(np.ones(rows.num_rows, np.int8))
    (stream.root / path).unlink()  # it is a link to the old home's
    pq.write_table(rows.append_column(f"c{rows.num_columns}", came), stream.root / path)
    return stream.mark(str(path))
