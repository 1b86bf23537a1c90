#!/bin/sh
# Builds h2spec, which checks HTTP/2 servers case by case, to .cache/h2spec/h2spec: the version of
# tools/setup/h2spec/go.mod. Half a minute on two cores.
# Does nothing if this go.mod has been built already.
#
# Usage: sh tools/setup/h2spec.sh
set -eu
cd "$(dirname "$0")/../.."

SOURCE=tools/setup/h2spec
TARGET=.cache/h2spec
BUILD_TIMEOUT_S=600

wanted=$(cat "$SOURCE/go.mod" "$SOURCE/go.sum" | sha256sum | cut -d ' ' -f 1)
[ "$(cat "$TARGET/.complete" 2>/dev/null || true)" != "$wanted" ] || exit 0

echo "Building h2spec from its Go modules"
mkdir -p "$TARGET"
rm -f "$TARGET/.complete"
output=$PWD/$TARGET/h2spec
(cd "$SOURCE" && timeout "$BUILD_TIMEOUT_S" go build -trimpath -buildvcs=false -o "$output" github.com/summerwind/h2spec/cmd/h2spec)
"$output" --version | head -n 1
echo "$wanted" >"$TARGET/.complete"
