#!/bin/sh
# Creates or updates .venv from uv.lock. It is fast if .venv is up to date.
#
# Usage: sh tools/setup/environment.sh [EXTRA...]      e.g. environment.sh spark
set -eu
cd "$(dirname "$0")/../.."

UV_VERSION=0.13.9
VENV=.venv
# For slow mirrors and large wheels (Spark); uv's default is 30 s.
: "${UV_HTTP_TIMEOUT:=300}"
UV_PROJECT_ENVIRONMENT=$VENV
export UV_HTTP_TIMEOUT UV_PROJECT_ENVIRONMENT

python=$(sh tools/setup/system.sh --find-python) || {
    echo "Python >= 3.11 with venv is needed: run make setup" >&2
    exit 2
}
if ! "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Creating $VENV with $python"
    "$python" -m venv --clear "$VENV"
fi
if ! "$VENV/bin/uv" --version >/dev/null 2>&1; then
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
fi

flags=""
for extra in "$@"; do
    flags="$flags --extra $extra"
done
# --inexact keeps uv itself and the extras of other targets.
# shellcheck disable=SC2086 # A list of flags.
"$VENV/bin/uv" sync --quiet --frozen --inexact --python "$VENV/bin/python" $flags
