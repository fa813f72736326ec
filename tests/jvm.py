"""How tests start Java and Spark: small, quiet, on this machine only."""

# No JVM here lives long enough for what the second compiler and a concurrent collector cost;
# children inherit this. With one compiler the JVM would reserve 48 MB for its code, and end when
# these are full.
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.executor.killOnFatalError.depth": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.ui.enabled": "false",
}
