#!/bin/sh
# Builds the driver of tools/rustclient (the rdkafka crate, with its librdkafka) to
# .cache/rust-client, for the conformance tests. Two minutes on two cores; needs cargo, gcc and make.
# Does nothing if these sources have been built already.
#
# Usage: sh tools/setup/rust_client.sh
set -eu
cd "$(dirname "$0")/../.."

SOURCE=tools/rustclient
TARGET=.cache/rust-client
BUILD_TIMEOUT_S=900

mkdir -p "$TARGET"
exec 9>"$TARGET/.lock"
flock 9
wanted=$(cat "$SOURCE"/Cargo.toml "$SOURCE"/Cargo.lock "$SOURCE"/src/*.rs | sha256sum | cut -d ' ' -f 1)
[ "$(cat "$TARGET/.complete" 2>/dev/null || true)" != "$wanted" ] || exit 0

sh tools/setup/system.sh gcc
echo "Building the driver of the rdkafka crate"
rm -f "$TARGET/.complete"
output=$PWD/$TARGET
(cd "$SOURCE" && timeout "$BUILD_TIMEOUT_S" cargo build --quiet --locked --target-dir "$output")
echo "$wanted" >"$TARGET/.complete"
