"""The engine: wires catalog, families and rounds; the public API.

    eng = headrace.Engine("race")
    eng.create_stream(
        "trades", "parquet:data/trades", schema="…", time="ts", late="10 seconds"
    )
    q = eng.add(
        "SELECT symbol, avg(price) AS p FROM trades "
        "GROUP BY symbol, window(ts, '1 hour', '10 minutes')"
    )
    eng.run()
    eng.results(q)

Spark starts when it is first needed; asking (`results`, `read`, `watch`, `explain`, `add`) never
needs it, and several processes may ask while one runs the home.
"""

from __future__ import annotations

from headrace.engine.ask import Asking
from headrace.engine.declare import Declaring
from headrace.engine.run import Running


class Engine(Declaring, Running, Asking):
    """Standing queries over the streams of one home folder."""


__all__ = ["Engine"]
