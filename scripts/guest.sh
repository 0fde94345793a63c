#!/usr/bin/env bash
# Runs a command on Debian's stock kernel, in a virtual machine whose files are this machine's, to be read. What it writes is in memory and gone afterwards.
#
#   scripts/guest.sh COMMAND [ARGUMENT]...
#
# It is root there, in the root of control groups of version 2 alone, with two processors. Ends with the command's exit code. The processor is emulated, so no time that is
# measured there means anything.
#
# Settings, from the environment:
#   GUEST_MEMORY   of the machine (default: 2G)
#   GUEST_KVM      1: use the processor's own virtualisation, where /dev/kvm works
#   GUEST_TOOLS    where emulator and kernel are kept (default: target/guest)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

(($#)) || {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 64
}
tools=$(realpath -m "${GUEST_TOOLS:-target/guest}")
# Each after those it needs. What it takes to have the machine's files: the virtual device, the protocol, the file system, and one that keeps changes apart; and what tests take.
modules=(virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p overlay fuse)

# --- emulator and kernel: unpacked, not installed --------------------------------------------------------------------

if [[ ! -e $tools/complete ]]; then
    rm -rf "$tools"
    mkdir -p "$tools/packages/partial"
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
    (
        cd "$tools/packages"
        # With the libraries that are not installed here.
        apt-get install --yes --no-install-recommends --download-only -o Dir::Cache::archives="$tools/packages/" \
            qemu-system-x86 busybox-static >&2
        apt-get download "$kernel" >&2
        for package in *.deb; do
            if [[ $package == linux-image-* ]]; then
                dpkg-deb --fsys-tarfile "$package" | tar -x -C "$tools" --wildcards './boot/vmlinuz-*' './lib/modules/*'
            else
                dpkg-deb -x "$package" "$tools"
            fi
        done
    )
    rm -r "$tools/packages"
    touch "$tools/complete"
fi

# --- what it begins with ---------------------------------------------------------------------------------------------

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/initrd/bin" "$work/initrd/modules"
cp "$tools/bin/busybox" "$work/initrd/bin/"
depmod=$(echo "$tools"/lib/modules/*)
for module in "${modules[@]}"; do
    # Some are in the kernel itself.
    find "$depmod/kernel" -name "${module//_/[-_]}.ko" -exec cp {} "$work/initrd/modules/$module.ko" \;
done
printf '%q ' "$@" >"$work/initrd/command"
printf '%s\n' "${modules[@]}" >"$work/initrd/order"
printf 'cd %q\nexport PATH=%q HOME=%q HOLDFAST_BIN=%q\n' "$PWD" "$PATH" "$HOME" "${HOLDFAST_BIN:-}" >"$work/initrd/environment"
cat >"$work/initrd/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /host /kept /new
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
while read -r module; do
    [ ! -e "/modules/$module.ko" ] || insmod "/modules/$module.ko"
done </order
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro host /host
mount -t tmpfs none /kept
mkdir /kept/changes /kept/work
mount -t overlay -o lowerdir=/host,upperdir=/kept/changes,workdir=/kept/work none /new
for kept in proc sys dev; do
    mount --move "/$kept" "/new/$kept"
done
mount -t tmpfs -o mode=1777 none /new/tmp
mount -t tmpfs -o mode=755 none /new/run
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts none /new/dev/pts
mount -t tmpfs -o mode=1777 none /new/dev/shm
mount -t cgroup2 none /new/sys/fs/cgroup
chmod 666 /new/dev/fuse
cp /environment /command /begin /bin/busybox /new/run/
ip link set lo up
# Not chroot: in one there are no user namespaces.
exec switch_root /new /bin/bash /run/begin
INIT
cat >"$work/initrd/begin" <<'BEGIN'
. /run/environment
[[ $HOLDFAST_BIN ]] || unset HOLDFAST_BIN
(eval "$(</run/command)")
echo "guest ended with $?"
/run/busybox poweroff -f
BEGIN
chmod +x "$work/initrd/init"
(cd "$work/initrd" && find . | "$tools/bin/busybox" cpio -o -H newc 2>/dev/null) >"$work/initrd.cpio"

# --- the machine -----------------------------------------------------------------------------------------------------

export LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu:$tools/lib/x86_64-linux-gnu
accelerator=tcg
[[ -z ${GUEST_KVM:-} ]] || accelerator=kvm
"$tools/usr/bin/qemu-system-x86_64" -L "$tools/usr/share/qemu" -L "$tools/usr/share/seabios" -accel "$accelerator" \
    -cpu "$([[ $accelerator == tcg ]] && echo max || echo host,-arch-capabilities)" -smp 2 -m "${GUEST_MEMORY:-2G}" \
    -nodefaults -no-user-config -display none -serial stdio -no-reboot -nic none \
    -fsdev local,id=host,path=/,security_model=none,multidevs=remap,readonly=on -device virtio-9p-pci,fsdev=host,mount_tag=host \
    -kernel "$(echo "$tools"/boot/vmlinuz-*)" -initrd "$work/initrd.cpio" -append 'console=ttyS0 quiet panic=-1 systemd.unified_cgroup_hierarchy=1' \
    </dev/null | tr -d '\r' | tee "$work/said"
code=$(sed -n 's/^guest ended with //p' "$work/said" | tail -1)
exit "${code:-70}"
