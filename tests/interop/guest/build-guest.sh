#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# build-guest.sh - make the guest in which the real Linux md reads our arrays.
#
# Debian's cloud kernel, unpacked but not installed, and an initramfs of busybox, mdadm,
# dmsetup, our mdread and the md and dm modules.  Everything goes to $MDGUEST_CACHE (default
# ~/.cache/mdguest).  Prints the two files a boot needs: KERNEL INITRAMFS.
#
# A second call with the same scripts and packages only prints; so callers need not know
# whether the guest is there.  The programs come from scripts/install-packages.sh; the
# kernel is fetched here because installing one would touch this machine's boot loader.
set -euo pipefail
umask 022
export LC_ALL=C PATH=/usr/sbin:/sbin:/usr/bin:/bin
here=$(cd "$(dirname "$0")" && pwd)
cache=${MDGUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mdguest}

programs="mdadm dmsetup"
modules="md-mod linear raid0 raid1 raid10 raid456 dm-mod virtio_pci virtio_blk"

for tool in qemu-system-x86_64 busybox cpio flock xz ldd gcc $programs; do
    command -v "$tool" >/dev/null || {
        echo "build-guest: $tool is missing; run scripts/install-packages.sh" >&2
        exit 1
    }
done

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9

# The kernel: downloaded once and then kept, so that tests do not change under a running check.
if [ ! -e "$cache/kernel/complete" ]; then
    rm -rf "$cache/kernel"
    mkdir -p "$cache/kernel/download"
    cd "$cache/kernel"
    package=$(apt-cache depends linux-image-cloud-amd64 |
        awk '$1 == "Depends:" { print $2; exit }')
    [ -n "$package" ] || {
        echo "build-guest: apt knows no linux-image-cloud-amd64; run apt-get update" >&2
        exit 1
    }
    # As whoever we are: apt's own user may not write below somebody's home.
    (cd download && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$package" >&2)
    dpkg -x download/"$package"_*.deb .
    rm -rf download usr/share
    [ -d lib/modules ] || ln -s usr/lib lib
    find lib/modules/ -name '*.ko.xz' -exec unxz {} +
    touch complete
fi
version=$(basename "$cache"/kernel/lib/modules/*)
kernel=$cache/kernel/boot/vmlinuz-$version

# The initramfs is named for what it is made of.
busybox=$(command -v busybox)
stamp=$({
    cat "$here"/build-guest.sh "$here"/guest-init "$here"/guest-ship "$here"/mdread.c "$busybox"
    for program in $programs; do cat "$(command -v "$program")"; done
    echo "$version"
} | sha256sum | cut -c1-16)
initramfs=$cache/guest-$stamp.cpio
if [ -e "$initramfs" ]; then
    echo "$kernel $initramfs"
    exit 0
fi

root=$(mktemp -d "$cache/root.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,sbin,etc,proc,sys,dev,run,tmp,out}
cp "$busybox" "$root/bin/busybox"
for applet in $(busybox --list | grep -vx busybox); do
    ln -sf busybox "$root/bin/$applet"
done
ln -sf ../bin/busybox "$root/sbin/modprobe"
for program in $programs; do
    path=$(command -v "$program")
    rm -f "$root/bin/$program"
    cp -L "$path" "$root/sbin/"
    for library in $(ldd "$path" | grep -o '/[^ ]*'); do
        mkdir -p "$root$(dirname "$library")"
        cp -Lu "$library" "$root$library"
    done
done
install -m 755 "$here/guest-init" "$root/init"
install -m 755 "$here/guest-ship" "$root/sbin/"
gcc -D_GNU_SOURCE -O2 -Wall -Wextra -static -o "$root/sbin/mdread" "$here/mdread.c"
: >"$root/etc/mdadm.conf"

# The wanted modules and what they need, by the kernel's own list of dependencies.
source=$cache/kernel/lib/modules/$version
target=$root/lib/modules/$version
mkdir -p "$target"
busybox depmod -b "$cache/kernel" "$version"
for module in $modules; do
    # A line reads "PATH/NAME.ko: DEPENDENCY DEPENDENCY ..."; names use - and _ alike.
    awk -v want="${module//-/_}" '{
        name = $1; sub(/.*\//, "", name); sub(/\.ko:$/, "", name); gsub(/-/, "_", name)
        if (name == want) { sub(/:/, ""); print; exit }
    }' "$source/modules.dep"
done | tr ' ' '\n' | sed "s|^/*lib/modules/$version/||" | sort -u | while read -r file; do
    [ -n "$file" ] || continue
    install -D -m 644 "$source/$file" "$target/$file"
done
cp "$source/modules.builtin" "$target/"
busybox depmod -b "$root" "$version"

(cd "$root" && find . | sort | cpio -o -H newc --quiet) >"$initramfs.new"
mv "$initramfs.new" "$initramfs"
echo "$kernel $initramfs"
