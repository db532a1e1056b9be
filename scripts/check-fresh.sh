#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# check-fresh.sh [COMMAND...] - run COMMAND (`make check`) on a machine that has nothing yet: in a
# bare Debian 12 tree made with debootstrap, in a clone of what is committed here.  Prints how long
# each stage took.  Needs root and about 4 GB in $TMPDIR (/var/tmp).
#
# What happens in the tree happens in mount and process name spaces of its own, which end with the
# script, even killed: the kernel then takes the mounts and the processes away, and removing the
# tree can't reach anything outside.
set -euo pipefail
release=bookworm

# The inner half: `check-fresh.sh --inside TREE COMMAND...`, in the new name spaces.
if [ "${1:-}" = --inside ]; then
    tree=$2
    shift 2
    # The new root has to be a mount of its own, as a machine's is: tests make name spaces too.
    mount --bind "$tree" "$tree"
    mount -t proc proc "$tree/proc"
    mount -t sysfs -o ro sysfs "$tree/sys"
    mount --rbind /dev "$tree/dev"
    mount -t tmpfs tmpfs "$tree/run"
    cd "$tree"
    # A proxy is part of how this machine reaches its mirror.
    exec env -i HOME=/root TERM="${TERM:-dumb}" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${no_proxy:+no_proxy="$no_proxy"} \
        chroot "$tree" /bin/sh -c 'cd /srv/braid && exec "$@"' sh "$@"
fi

self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- make --silent check
if [ "$(id -u)" != 0 ]; then
    echo "check-fresh: needs root: debootstrap, mounts and chroot; try: sudo make check-fresh" >&2
    exit 1
fi
git rev-parse --verify --quiet HEAD >/dev/null || {
    echo "check-fresh: nothing is committed here, so there is nothing to clone" >&2
    exit 1
}
command -v debootstrap >/dev/null || {
    apt-get update -q >/dev/null
    apt-get install -q -y --no-install-recommends debootstrap >/dev/null
}

# REPOSITORY RELEASE of this machine's own Debian mirrors, whatever form its sources have.
sources() {
    # The $(...) are apt's.
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' \
        'Component: main' | sort -u | grep -E " $release(-updates|-security)?\$"
}
mirror=$(sources | sed -n "s/ $release\$//p" | head -1)
[ -n "$mirror" ] || {
    echo "check-fresh: no mirror of Debian $release in this machine's apt sources" >&2
    exit 1
}

work=$(mktemp -d -p "${TMPDIR:-/var/tmp}" braid-fresh.XXXXXX)
tree=$work/tree # not $work: the root directory of a machine is open to all users
mkdir "$tree"
child=
# shellcheck disable=SC2317 # the trap calls it
finish() {
    # KILL, because unshare lets nothing milder end it; what it started goes with it.
    [ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true
    wait
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# apart COMMAND...: run it in name spaces of its own, in the background so that a signal to this
# script is not kept waiting.
apart() {
    setpriv --pdeathsig KILL unshare --mount --mount-proc --pid --fork --kill-child \
        --propagation private "$@" &
    child=$!
    local status=0
    wait "$child" || status=$?
    child=
    return $status
}
inside() {
    apart "$self" --inside "$tree" "$@"
}

# stage NAME COMMAND...: run it; on failure show what it said.
stage() {
    local name=$1 start
    shift
    start=$(date +%s)
    if ! "$@" >"$work/log" 2>&1; then
        tail -40 "$work/log" >&2
        echo "check-fresh: failed: $name" >&2
        exit 1
    fi
    echo "check-fresh: $(($(date +%s) - start)) s: $name"
}

configure_apt() {
    sources | while read -r repository suite; do
        echo "deb $repository $suite main"
    done >"$tree/etc/apt/sources.list"
    # Proxies, and what a pinned mirror needs.
    apt-config dump | grep -E '^Acquire::(.*[Pp]roxy|Check|Retries|ForceIPv)' \
        >"$tree/etc/apt/apt.conf.d/90host" || true
    for pins in preferences preferences.d; do
        [ ! -e "/etc/apt/$pins" ] || cp -r "/etc/apt/$pins" "$tree/etc/apt/"
    done
    cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
}

stage "Debian $release, minbase" apart debootstrap --variant=minbase "$release" "$tree" "$mirror"
configure_apt
stage "clone" git clone --quiet --no-hardlinks . "$tree/srv/braid"
# The one thing that the README asks for before `make check`.
stage "make, and nothing else" inside sh -c \
    'apt-get update -q && apt-get install -q -y --no-install-recommends make'
start=$(date +%s)
status=0
inside "$@" || status=$?
echo "check-fresh: $(($(date +%s) - start)) s: $*; exit status $status"
exit $status
