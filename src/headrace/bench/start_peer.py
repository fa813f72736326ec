"""`python -m headrace.bench.start_peer BEGAN FILE SOURCE`: the least that answers one window query on
Structured Streaming.  FILE gets a line for each phase, as in `start_child.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import time

SCHEMA = "symbol STRING, price DOUBLE, qty INT, side STRING, venue STRING, ts TIMESTAMP"
QUERY = (
    "SELECT symbol, window(ts, '1 minute', '20 seconds') AS w, sum(price * qty) / sum(qty) AS vwap, count(*) AS n "
    "FROM trades GROUP BY symbol, window(ts, '1 minute', '20 seconds')"
)


def main(began_s: float, file: Path, source: str) -> None:
    from pyspark.sql import DataFrame, SparkSession

    def note(phase: str) -> None:
        with file.open("a") as out:
            out.write(f"{time() - began_s:.3f} {phase}\n")

    note("imported")
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    note("Spark is there")

    def take(frame: DataFrame, _batch: int) -> None:
        note("first round begins")
        frame.toArrow()
        note("first answer")

    spark.readStream.schema(SCHEMA).parquet(source).createOrReplaceTempView("trades")
    with tempfile.TemporaryDirectory(prefix="headrace-peer-") as checkpoint:
        running = (
            spark.sql(QUERY)
            .writeStream.outputMode("complete")
            .foreachBatch(take)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        note("stream started")
        running.awaitTermination()
        spark.stop()


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
