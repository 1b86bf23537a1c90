#!/bin/sh
# Copies the jars of Spark's Kafka connector, as spark/pom.xml names them, to .cache/spark-jars.
# Does nothing if the jars of this pom are there already.
#
# Usage: sh tools/setup/spark_jars.sh
set -eu
cd "$(dirname "$0")/../.."

POM=spark/pom.xml
JARS=.cache/spark-jars
MAVEN_TIMEOUT_S=600

wanted=$(sha256sum <"$POM" | cut -d ' ' -f 1)
[ "$(cat "$JARS/.complete" 2>/dev/null || true)" != "$wanted" ] || exit 0

echo "Fetching the jars of Spark's Kafka connector with Maven"
rm -rf "$JARS"
mkdir -p "$JARS"
timeout "$MAVEN_TIMEOUT_S" mvn -q -B -f "$POM" dependency:copy-dependencies \
    "-DoutputDirectory=$PWD/$JARS" >"$JARS/maven.out" 2>&1 || {
    cat "$JARS/maven.out" >&2
    echo "Maven could not fetch what $POM names" >&2
    exit 1
}
rm "$JARS/maven.out"
echo "$wanted" >"$JARS/.complete"
