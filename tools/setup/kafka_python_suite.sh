#!/bin/sh
# Downloads kafka-python's sdist, whose tests the wheel leaves out, and unpacks it to
# .cache/kafka-python/sdist: the version and the hash of uv.lock, so that the tests are those of the
# client in .venv. A few seconds. pip takes the package index from its own settings, and may ask it
# for setuptools, too, because it reads the metadata of what it downloads.
# Does nothing if this sdist has been unpacked already.
#
# Usage: sh tools/setup/kafka_python_suite.sh
set -eu
cd "$(dirname "$0")/../.."

PACKAGE=kafka-python
TARGET=.cache/kafka-python
DOWNLOAD_TIMEOUT_S=600

mkdir -p "$TARGET"
exec 9>"$TARGET/.lock"
flock 9

# "name==version --hash=sha256:..." of the package's sdist, as pip reads it.
wanted=$(awk -v name="\"$PACKAGE\"" '
    $1 == "name" { found = $3 == name }
    found && $1 == "version" { version = $3 }
    found && $1 == "sdist" && match($0, /sha256:[0-9a-f]+/) {
        gsub("\"", "", version)
        print "'"$PACKAGE"'==" version " --hash=" substr($0, RSTART, RLENGTH)
        exit
    }' uv.lock)
[ -n "$wanted" ] || {
    echo "uv.lock names no sdist of $PACKAGE" >&2
    exit 2
}
[ "$(cat "$TARGET/.complete" 2>/dev/null || true)" != "$wanted" ] || exit 0

echo "Downloading the tests of $wanted" | sed 's/ --hash.*//'
rm -rf "$TARGET/.complete" "$TARGET/download" "$TARGET/sdist"
mkdir -p "$TARGET/download" "$TARGET/sdist"
echo "$wanted" >"$TARGET/requirements.txt"
timeout "$DOWNLOAD_TIMEOUT_S" .venv/bin/python -m pip download --quiet --disable-pip-version-check \
    --no-deps --no-binary "$PACKAGE" --require-hashes --requirement "$TARGET/requirements.txt" \
    --dest "$TARGET/download"
tar -xzf "$TARGET"/download/*.tar.gz --strip-components 1 --directory "$TARGET/sdist"
echo "$wanted" >"$TARGET/.complete"
