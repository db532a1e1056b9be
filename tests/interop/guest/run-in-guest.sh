#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# run-in-guest.sh [OPTIONS] [IMAGE...] -- COMMAND
#
# Boots the guest of build-guest.sh with each IMAGE as a virtio disk, in order (/dev/vda,
# /dev/vdb, ...), and runs COMMAND, busybox sh text, as root in it.  Its output comes out on
# stdout and its exit status is this script's.
#   -i FILE      put FILE into the guest as /in/NAME (repeatable)
#   -o DIR       what COMMAND left in /out, and dmesg.txt, comes back into DIR
#   -n           the images are not changed: writes are thrown away
#   -m MB        guest memory (default 768)
#   -t SECONDS   end the guest after that (default 300; exit 124)
# Status 126: the guest sent no status (it crashed; the end of its console goes to stderr).
# A guest has no KVM: it runs by translation, in two to six seconds, wherever qemu runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage() {
    sed -n '3,15s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

inputs=() out="" snapshot=off memory=768 seconds=300
# getopts would take "--" for its own end of options and hide whether images follow.
while [ $# -gt 0 ]; do
    case $1 in
    -i) inputs+=("$2") && shift 2 ;;
    -o) out=$2 && shift 2 ;;
    -n) snapshot=on && shift ;;
    -m) memory=$2 && shift 2 ;;
    -t) seconds=$2 && shift 2 ;;
    --) break ;;
    -*) usage ;;
    *) break ;;
    esac
done
images=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    images+=("$1")
    shift
done
[ $# -eq 2 ] || usage
command=$2

guest=$("$here/build-guest.sh")
kernel=${guest% *}
initramfs=${guest##* }

work=$(mktemp -d "${TMPDIR:-/tmp}/guest.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/extra/in"
printf '%s\n' "$command" >"$work/extra/command.sh"
for file in "${inputs[@]}"; do
    cp "$file" "$work/extra/in/"
done
# The kernel unpacks archives that follow one another over each other.
cp "$initramfs" "$work/initramfs"
(cd "$work/extra" && find . | cpio -o -H newc --quiet) >>"$work/initramfs"
truncate -s 1G "$work/out.raw"

# An array stops and starts in a tenth of the time when the kernel does not wait for quiet
# moments (RCU), and every array's reason for not starting must find room in the log.
options="console=ttyS0 panic=-1 quiet loglevel=4 random.trust_cpu=on mitigations=off"
options+=" rcupdate.rcu_expedited=1 init_on_alloc=0 printk.devkmsg=on log_buf_len=4M"
qemu=(qemu-system-x86_64 -accel "tcg,thread=multi" -cpu max -m "$memory" -smp 1
    -nodefaults -display none -no-reboot -no-user-config
    -kernel "$kernel" -initrd "$work/initramfs"
    -append "$options"
    -serial "file:$work/console" -serial stdio)
number=0
for image in "${images[@]}"; do
    qemu+=(-drive "file=$image,format=raw,if=none,id=disk$number,cache=unsafe,snapshot=$snapshot"
        -device "virtio-blk-pci,drive=disk$number,serial=image$number")
    number=$((number + 1))
done
qemu+=(-drive "file=$work/out.raw,format=raw,if=none,id=out,cache=unsafe"
    -device "virtio-blk-pci,drive=out,serial=out")

status=0
timeout "$seconds" "${qemu[@]}" </dev/null || status=$?
if [ "$status" -ne 0 ]; then
    echo "run-in-guest: qemu ended with $status; console:" >&2
    tail -20 "$work/console" >&2
    exit "$status"
fi
status=$(head -c 512 "$work/out.raw" | tr -d '\0' | sed -n 's/^guest status=//p')
if [ -z "$status" ]; then
    echo "run-in-guest: the guest sent no status; console:" >&2
    tail -40 "$work/console" >&2
    exit 126
fi
if [ -n "$out" ]; then
    mkdir -p "$out"
    tar -x --no-same-owner -C "$out" -f <(tail -c +513 "$work/out.raw")
fi
exit "$status"
