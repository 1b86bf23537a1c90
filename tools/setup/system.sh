#!/bin/sh
# Makes sure that the system has the programs that a make target needs.
#
# Usage: sh tools/setup/system.sh NEED...
#
# Needs: python etcd kcat java maven gcc openssl node go docker compose debootstrap faketime strace ext4 chromium
#
# Installs missing programs from the distribution if run as root on Debian or Ubuntu; otherwise
# prints the exact command to run, and ends with exit code 2. Prints nothing if nothing is missing.
set -eu

APT_TIMEOUT_S=900
PYTHONS="python3.14 python3.13 python3.12 python3.11 python3"

have() { command -v "$1" >/dev/null 2>&1; }

# Prints the first Python that is new enough and can make virtual environments.
find_python() {
    for candidate in $PYTHONS; do
        if have "$candidate" && "$candidate" -c \
            'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
        then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

java_is_new_enough() {
    have java || return 1
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

# From 1.21 on Go downloads a newer version by itself if a module needs it.
go_is_new_enough() {
    have go || return 1
    minor=$(go version | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge 21 ]
}

compose_works() {
    have docker-compose || docker compose version >/dev/null 2>&1
}

# Is NEED there already?
satisfied() {
    case "$1" in
        python) find_python >/dev/null ;;
        etcd) have etcd && have etcdctl ;;
        kcat) have kcat ;;
        java) java_is_new_enough ;;
        maven) have mvn ;;
        gcc) have gcc && have make ;;
        openssl) have gcc && echo '#include <openssl/ssl.h>' | gcc -E -x c - >/dev/null 2>&1 ;;
        node) have node && have npm ;;
        go) go_is_new_enough ;;
        docker) have dockerd && have iptables && have ip ;;
        compose) compose_works ;;
        debootstrap) have debootstrap ;;
        faketime) have faketime ;;
        strace) have strace ;;
        ext4) have mkfs.ext4 && have losetup && have fsfreeze ;;
        chromium) have chromium || have chromium-browser ;;
        *) echo "system.sh: unknown need: $1" >&2; exit 64 ;;
    esac
}

# Names differ between releases; the first alternative that exists is used.
packages_of() {
    case "$1" in
        python) echo "python3+python3-venv python3.12+python3.12-venv python3.11+python3.11-venv" ;;
        etcd) echo "etcd-server+etcd-client etcd" ;;
        kcat) echo "kcat kafkacat" ;;
        java) echo "openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless" ;;
        maven) echo "maven" ;;
        gcc) echo "gcc+libc6-dev+make" ;;
        openssl) echo "gcc+libc6-dev+libssl-dev" ;;
        node) echo "nodejs+npm" ;;
        go) echo "golang-1.24-go golang-1.23-go golang-1.22-go golang-go" ;;
        faketime) echo "faketime" ;;
        strace) echo "strace" ;;
        ext4) echo "e2fsprogs+mount+util-linux" ;;
        docker) echo "docker.io+iptables+iproute2" ;;
        compose) echo "docker-compose docker-compose-v2" ;;
        debootstrap) echo "debootstrap" ;;
        chromium) echo "chromium chromium-browser" ;;
    esac
}

apt_has() {
    candidate=$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p')
    [ -n "$candidate" ] && [ "$candidate" != "(none)" ]
}

# The release's python3 may be older than 3.11 (Ubuntu 22.04) and have a newer numbered one.
python_is_old() {
    version=$(apt-cache policy python3 2>/dev/null | sed -n 's/^ *Candidate: 3\.\([0-9]*\).*/\1/p')
    [ -n "$version" ] && [ "$version" -lt 11 ]
}

# Prints the packages for NEED: the first available alternative, or else the first one.
choose() {
    alternatives=$(packages_of "$1")
    for alternative in $alternatives; do
        first=${alternative%%+*}
        if [ "$first" = python3 ] && python_is_old; then
            continue
        fi
        if apt_has "$first"; then
            echo "$alternative" | tr '+' ' '
            return
        fi
    done
    echo "${alternatives%% *}" | tr '+' ' '
}

if [ "${1:-}" = --find-python ]; then
    find_python
    exit
fi

missing=""
for need in "$@"; do
    satisfied "$need" || missing="$missing $need"
done
[ -n "$missing" ] || exit 0

if ! have apt-get; then
    echo "Missing:$missing. This is not Debian or Ubuntu: please install them (Python >= 3.11" \
        "with venv, Java >= 17) and run make again." >&2
    exit 2
fi

root=false
[ "$(id -u)" -eq 0 ] && root=true
if $root; then
    echo "Installing for:$missing"
    timeout "$APT_TIMEOUT_S" apt-get update -qq
fi
packages=""
for need in $missing; do
    packages="$packages $(choose "$need")"
done
command_line="apt-get install -y --no-install-recommends$packages"
if ! $root; then
    echo "Missing:$missing. Please run:" >&2
    echo "    sudo $command_line" >&2
    exit 2
fi
# etcd's package would otherwise start a server of its own on its default port.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
# shellcheck disable=SC2086 # A list of packages.
DEBIAN_FRONTEND=noninteractive timeout "$APT_TIMEOUT_S" $command_line
for need in $missing; do
    satisfied "$need" || { echo "$need is still missing after: $command_line" >&2; exit 2; }
done
