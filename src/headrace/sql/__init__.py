"""The SQL front end: the gate between a user's text and Spark.

No text from a user reaches Spark.  A query is cut into tokens (`text`), parsed by a grammar of one
SELECT (`parse_core`, `parse_literal`, `parse_expr`, `parse_select` → `syntax`), bound against the
catalog and an allow-list (`bind`, `bind_expr`, `bind_aggregate`, `bind_names`, `naming`;
`functions`, `rules`, `types`, `literals`, `patterns`) to a tree of our own (`tree`, `query`), and
Spark is given SQL emitted from that tree (`emit`).

    bind.bind(sql, relations, name=…)          a text → a Query, or a SQLError that points into it
    emit.emit(expr), emit.emit_query(…)        the tree → Spark SQL
    functions.may_raise(expr)                  may it fail on some row?
    codec.encode(query), codec.decode(data)    a Query as data, and back
    schema.parse_schema(ddl)                   "price DOUBLE, …" → fields
    duration.parse_duration_us(text)           '90 minutes' → microseconds
    statements.parse_script(text, config)      CREATE STREAM …; CREATE QUERY …; → statements

Nothing here imports pyspark.
"""
