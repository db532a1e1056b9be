#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# install-packages.sh - the Debian packages that braid needs: to build and show itself (`build`),
# or to be tested as well (`check`, the default).  As root they are installed; otherwise the line
# that installs them is printed, and the script fails if any is missing.
set -euo pipefail

# mdadm, e2fsprogs, fdisk: the demo compares with them.
build=(gcc meson ninja-build pkg-config libc6-dev libisal-dev libjansson-dev libblkid-dev
    uuid-dev liburing-dev nbdkit nbdkit-plugin-dev libfuse3-dev fuse3 libnbd-dev libnbd-bin python3
    mdadm
    e2fsprogs fdisk xz-utils)
# lib32gcc-12-dev, libc6-dev-i386: gcc -m32.  gcc-multilib is more than that takes, and can't be
# installed beside cross compilers.  qemu-user: for kernels that take no programs of 32 bits.
check=("${build[@]}" clang clang-format libclang-rt-14-dev llvm g++ git python3-jsonschema mandoc
    util-linux qemu-system-x86 busybox-static cpio dmsetup libnbd-dev fio qemu-utils xfsprogs
    lib32gcc-12-dev libc6-dev-i386 qemu-user)

case ${1:-check} in
build) wanted=("${build[@]}") ;;
check) wanted=("${check[@]}") ;;
*)
    echo "usage: $0 [build|check]" >&2
    exit 2
    ;;
esac

missing=()
for package in "${wanted[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "packages are missing; install them with:" >&2
    echo "  sudo apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null
apt-get install -q -y --no-install-recommends "${missing[@]}" >/dev/null
