"""Where rows come from: `parquet:`, `json:`, `csv:`, `rate://`, `kafka://`, or a streaming
DataFrame.

Options of Spark's reader follow as `?name=value&…`; only known ones are passed on.  Text formats
mark rows that do not fit the schema, so that they reach the dead-letter file and not an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from headrace.errors import SourceError, near
from headrace.quoting import quote_name, quote_text
from headrace.runtime.family import CORRUPT
from headrace.secret_options import check_address, check_reference, resolve
from headrace.values import BIGINT, TIMESTAMP, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DATAFRAME = "dataframe:"
ARRIVAL = "_headrace_arrival"
PATHS_MAX = 32  # Spark lists more with a job of its own
FILES = ("parquet", "json", "csv")
KINDS = (
    "parquet:PATH",
    "json:PATH",
    "csv:PATH",
    "rate://ROWS_PER_SECOND",
    "kafka://HOST:PORT/TOPIC",
    "a DataFrame",
)

_FILE_OPTIONS = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "pathGlobFilter",
    "recursiveFileLookup",
    "maxFileAge",
)
_TEXT_OPTIONS = ("encoding", "lineSep", "dateFormat", "timestampFormat", "locale")
_COUNTS = ("maxFilesPerTrigger", "maxOffsetsPerTrigger", "minPartitions", "numPartitions")
OPTIONS: dict[str, tuple[str, ...]] = {
    "parquet": _FILE_OPTIONS,
    "json": (
        *_FILE_OPTIONS,
        *_TEXT_OPTIONS,
        "multiLine",
        "allowComments",
        "allowSingleQuotes",
        "primitivesAsString",
    ),
    "csv": (
        *_FILE_OPTIONS,
        *_TEXT_OPTIONS,
        "header",
        "sep",
        "quote",
        "escape",
        "comment",
        "nullValue",
        "nanValue",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "multiLine",
    ),
    "rate": ("rampUpTime", "numPartitions"),
    "kafka": (
        "startingOffsets",
        "maxOffsetsPerTrigger",
        "minPartitions",
        "failOnDataLoss",
        "kafka.group.id",
        "kafka.security.protocol",
        "kafka.sasl.mechanism",
        "kafka.sasl.jaas.config",
        "kafka.ssl.truststore.location",
        "kafka.ssl.truststore.password",
        "kafka.ssl.keystore.location",
        "kafka.ssl.keystore.password",
        "kafka.ssl.key.password",
    ),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A source text taken apart."""

    kind: str
    place: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def marks_bad_rows(self) -> bool:
        return self.kind in ("json", "csv", "kafka")


def parse_source(text: str) -> Source:
    """The source text, checked as far as can be without reading it."""
    if text.startswith(DATAFRAME):
        return Source("dataframe", text[len(DATAFRAME) :])
    head, _, query = text.partition("?")
    kind, colon, place = head.partition(":")
    if not colon or kind not in OPTIONS or not place.strip("/"):
        example = "e.g. parquet:data/trades?maxFilesPerTrigger=1"
        shown = f"{kind[:20]}:(not shown)" if "@" in text else text  # it may hold a password
        raise SourceError("not a source", value=shown, choices=KINDS, hint=example)
    options = tuple(parse_qsl(query, keep_blank_values=True))
    for name, value in options:
        if name not in OPTIONS[kind]:
            raise SourceError(
                f"unknown option of a {kind} source",
                value=name,
                choices=near(name, OPTIONS[kind], 8),
            )
        if name in _COUNTS and not (value.isascii() and value.isdigit() and int(value) > 0):
            raise SourceError(
                f"the option {name} is a whole number from 1 on",
                value=value[:100],
                hint=f"{name}=1",
            )
    if kind in ("rate", "kafka"):
        place = place.removeprefix("//")
        _check_address(kind, place, text)
    return Source(kind, place, options)


def absolute(source: Source, text: str) -> str:
    """The same source text with its path made absolute, so that the home can be opened from
    anywhere."""
    if source.kind not in FILES or "://" in source.place:
        return text
    query = text.partition("?")[2]
    path = Path(source.place).expanduser().absolute()
    return f"{source.kind}:{path}" + (f"?{query}" if query else "")


def check_relation(relation: Relation, source: Source) -> None:
    """What a source demands of the schema, and that no secret stands in it: the catalog keeps it as
    it is."""
    for name, value in source.options:
        check_reference(name, value)
    if source.kind != "dataframe" and (source.kind == "kafka" or "://" in source.place):
        check_address(source.kind, source.place)
    if source.kind == "rate":
        kinds = sorted(str(f.type) for f in relation.fields)
        if kinds != ["bigint", "timestamp"]:
            raise SourceError(
                "a rate source has one TIMESTAMP and one BIGINT column",
                value=relation.ddl(),
                hint="e.g. schema='value BIGINT, timestamp TIMESTAMP'",
            )


def open_source(spark: SparkSession, relation: Relation, secrets_file: str = "") -> DataFrame:
    """The streaming DataFrame of a relation, with the columns of its schema (and CORRUPT).  Secrets
    are looked up."""
    from pyspark.errors import PySparkException

    from headrace.runtime.faults import reason_of

    named = parse_source(relation.source)
    source = replace(
        named, options=tuple((n, resolve(n, v, secrets_file)) for n, v in named.options)
    )
    try:
        return _opened(spark, relation, source)
    except PySparkException as error:
        raise SourceError(
            f"Spark cannot open the source of {relation.name!r}",
            value=reason_of(error),
            code="SOURCE_OPEN",
            hint=f"look at its options; a {source.kind} source takes {', '.join(OPTIONS[source.kind][:4])}, …",
        ) from error


def _opened(spark: SparkSession, relation: Relation, source: Source) -> DataFrame:
    if source.kind in FILES:
        return _open_files(spark, relation, source)
    if source.kind == "rate":
        return _open_rate(spark, relation, source)
    if source.kind == "kafka":
        return _open_kafka(spark, relation, source)
    raise SourceError(
        f"stream {relation.name!r} reads a DataFrame that only its program has",
        value=relation.source,
        hint="call eng.create_stream with the DataFrame again before running",
    )


def check_there(relation: Relation) -> None:
    """A source folder that is not there is said before Spark says it in its way."""
    source = parse_source(relation.source)
    if source.kind not in FILES or "://" in source.place or any(c in source.place for c in "*?[{"):
        return
    if not Path(source.place).exists():
        raise SourceError(
            f"the source folder of {relation.name!r} is not there",
            value=source.place,
            hint="make the folder, or put it back; rows already committed are safe",
            code="SOURCE_GONE",
        )


def check_whole(relation: Relation, inputs: Sequence[tuple[str, int, int]]) -> None:
    """A Parquet file without a byte is one that somebody is still writing; Spark takes it for one
    without rows, and never reads it again."""
    empty = (
        [path for path, size, _ in inputs if size == 0]
        if relation.source.startswith("parquet:")
        else []
    )
    if empty:
        raise SourceError(
            f"a file of the source of {relation.name!r} is empty, which no Parquet file is",
            value=empty[0],
            hint="write files elsewhere and move them in when they are whole; mend this one or take it away, and run "
            "again: nothing of this round was committed",
            code="SOURCE_UNREADABLE",
        )


def _open_files(spark: SparkSession, relation: Relation, source: Source) -> DataFrame:
    check_there(relation)
    ddl = relation.ddl()
    reader = spark.readStream.format(source.kind)
    if source.marks_bad_rows:
        ddl += f", {quote_name(CORRUPT)} STRING"
        reader = reader.option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
    for name, value in source.options:
        reader = reader.option(name, value)
    frame = reader.schema(ddl).load(_url(source))
    if relation.is_table:
        order = "struct(_metadata.file_modification_time, _metadata.file_path)"
        frame = frame.selectExpr("*", f"{order} AS {quote_name(ARRIVAL)}")
    return frame


def read_again(frame: DataFrame, relation: Relation, paths: Sequence[str]) -> DataFrame:
    """The rows of these files of a stream of Parquet files, straight from them; the frame, where
    that is not the same.

    What Spark gives to `foreachBatch` has been made rows of all columns already; files are read as
    batches of the columns that are asked for, and where no column is, not at all."""
    source = parse_source(relation.source)
    plain = source.kind == "parquet" and not any(
        name == "recursiveFileLookup" for name, _ in source.options
    )
    if relation.is_table or not plain or not 0 < len(paths) <= PATHS_MAX:
        return frame
    # Spark would look for other files
    if any(c in text for text in (source.place, *paths) for c in "*?[]{}\\"):
        return frame
    return (
        frame.sparkSession.read.schema(relation.ddl())
        .option("basePath", _url(source))
        .parquet(*(f"file://{path}" for path in paths))
    )


def _url(source: Source) -> str:
    """Where a cluster has another file system for its default, a path alone would be one there."""
    return source.place if "://" in source.place else f"file://{Path(source.place).absolute()}"


def _open_rate(spark: SparkSession, relation: Relation, source: Source) -> DataFrame:
    reader = spark.readStream.format("rate").option("rowsPerSecond", int(source.place))
    for name, value in source.options:
        reader = reader.option(name, value)
    made = {TIMESTAMP: "timestamp", BIGINT: "value"}
    return reader.load().selectExpr(
        *(f"{quote_name(made[f.type])} AS {quote_name(f.name)}" for f in relation.fields)
    )


def _open_kafka(spark: SparkSession, relation: Relation, source: Source) -> DataFrame:
    servers, _, topic = source.place.partition("/")
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
    )
    for name, value in (("startingOffsets", "earliest"), *source.options):
        reader = reader.option(name, value)
    return reader.load().selectExpr(f"{from_json_sql(relation)} AS r").select("r.*")


def from_json_sql(relation: Relation) -> str:
    """A row of the relation from the JSON in a column `value`; what does not fit goes into
    CORRUPT."""
    ddl = quote_text(f"{relation.ddl()}, {quote_name(CORRUPT)} STRING")
    return f"from_json(CAST(value AS STRING), {ddl}, map('columnNameOfCorruptRecord', {quote_text(CORRUPT)}))"


def _check_address(kind: str, place: str, text: str) -> None:
    if kind == "rate" and not (place.isdigit() and int(place) > 0):
        raise SourceError(
            "a rate source needs a number of rows a second", value=text, hint="e.g. rate://1000"
        )
    if kind == "kafka" and not ("/" in place and place.partition("/")[2]):
        raise SourceError(
            "a kafka source needs server and topic",
            value=text,
            hint="e.g. kafka://localhost:9092/trades",
        )
