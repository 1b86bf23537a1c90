#!/bin/sh
# Builds drivers of tools/goclients to .cache/go-clients, for the conformance tests: those of franz-go and
# sarama, in half a minute on two cores, or the ones that are named. "confluent" takes a minute and a C compiler.
# Does nothing if these sources have been built already.
#
# Usage: sh tools/setup/go_clients.sh [DRIVER...]
set -eu
cd "$(dirname "$0")/../.."

SOURCE=tools/goclients
TARGET=.cache/go-clients
[ $# -gt 0 ] || set -- franz sarama
STAMP=$TARGET/.complete-$(echo "$@" | tr ' ' -)
BUILD_TIMEOUT_S=600

mkdir -p "$TARGET"
exec 9>"$TARGET/.lock"
flock 9
wanted=$(cat "$SOURCE"/go.mod "$SOURCE"/go.sum "$SOURCE"/*/*.go | sha256sum | cut -d ' ' -f 1)
[ "$(cat "$STAMP" 2>/dev/null || true)" != "$wanted" ] || exit 0

sh tools/setup/system.sh go
echo "Building the drivers of Go clients"
rm -f "$STAMP"
output=$PWD/$TARGET/
for driver in "$@"; do
    (cd "$SOURCE" && timeout "$BUILD_TIMEOUT_S" go build -trimpath -buildvcs=false -o "$output" "./$driver")
done
echo "$wanted" >"$STAMP"
