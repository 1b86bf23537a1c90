#!/bin/sh
# Builds the etcd version of tools/setup/etcd/go.mod to .cache/etcd/etcd: the tests of the metadata
# store run on it and on the distribution's. A minute on two cores.
# Does nothing if this go.mod has been built already.
#
# Usage: sh tools/setup/etcd.sh
set -eu
cd "$(dirname "$0")/../.."

SOURCE=tools/setup/etcd
TARGET=.cache/etcd
BUILD_TIMEOUT_S=900

wanted=$(cat "$SOURCE/go.mod" "$SOURCE/go.sum" "$SOURCE/main.go" | sha256sum | cut -d ' ' -f 1)
[ "$(cat "$TARGET/.complete" 2>/dev/null || true)" != "$wanted" ] || exit 0

echo "Building etcd from its Go modules"
mkdir -p "$TARGET"
rm -f "$TARGET/.complete"
output=$PWD/$TARGET/etcd
(cd "$SOURCE" && timeout "$BUILD_TIMEOUT_S" go build -trimpath -buildvcs=false -o "$output" .)
"$output" --version | head -n 1
echo "$wanted" >"$TARGET/.complete"
