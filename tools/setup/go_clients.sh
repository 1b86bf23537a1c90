#!/bin/sh
# Builds the drivers of tools/goclients (franz-go, sarama) to .cache/go-clients, for the conformance
# tests. Half a minute on two cores.
# Does nothing if these sources have been built already.
#
# Usage: sh tools/setup/go_clients.sh
set -eu
cd "$(dirname "$0")/../.."

SOURCE=tools/goclients
TARGET=.cache/go-clients
BUILD_TIMEOUT_S=600

mkdir -p "$TARGET"
exec 9>"$TARGET/.lock"
flock 9
wanted=$(cat "$SOURCE"/go.mod "$SOURCE"/go.sum "$SOURCE"/*/*.go | sha256sum | cut -d ' ' -f 1)
[ "$(cat "$TARGET/.complete" 2>/dev/null || true)" != "$wanted" ] || exit 0

sh tools/setup/system.sh go
echo "Building the drivers of Go clients"
rm -f "$TARGET/.complete"
output=$PWD/$TARGET/
(cd "$SOURCE" && timeout "$BUILD_TIMEOUT_S" go build -trimpath -buildvcs=false -o "$output" ./franz ./sarama)
echo "$wanted" >"$TARGET/.complete"
