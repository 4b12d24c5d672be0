#!/bin/sh
# Run by mmdebstrap once the packages are installed; $1 is the root of the new system.
#
# Adds the kernel, the initrd, two unprivileged users and the one unit that runs the payload, and
# switches off what a throw-away test machine does not need. Everything it needs from the outside
# comes in through MAPPER_VM_RECIPE (the folder this script lies in), MAPPER_VM_KERNEL (an apt source
# line with the kernel) and MAPPER_VM_KERNEL_WANTED (not empty: without that suite there is no image).
set -eu
root=$1

# ---- kernel -------------------------------------------------------------------------------
# Its packages are unpacked, not installed: installing them would pull in initramfs-tools and build a
# large initrd, which takes longer than all the rest and is not used.
depends() {
    chroot "$root" apt-cache "$@" | sed -n 's/.*Depends: \(linux-[a-z]*-[0-9][^ ]*\)$/\1/p'
}
suite=$(echo "$MAPPER_VM_KERNEL" | awk '{print $3}')
echo "$MAPPER_VM_KERNEL" >"$root/etc/apt/sources.list.d/kernel.list"
if ! chroot "$root" apt-get -qq update || ! depends -t "$suite" depends linux-image-cloud-amd64 | grep -q .; then
    [ -z "$MAPPER_VM_KERNEL_WANTED" ] || { echo "no cloud kernel in $suite" >&2; exit 1; }
    echo "no kernel from $suite to be had: the stock kernel is taken" >&2
    rm "$root/etc/apt/sources.list.d/kernel.list"
    chroot "$root" apt-get -qq update
    suite=
fi
package=$(depends ${suite:+-t "$suite"} depends linux-image-cloud-amd64 | grep ^linux-image- | head -n 1)
[ -n "$package" ] || { echo "no cloud kernel in the apt sources" >&2; exit 1; }
# Since Linux 7.3 this package is empty and depends on those of the kernel and its modules.
parts=$(depends depends "$package")
# Not `dpkg-deb -x`, which would put a folder in the place of the link /lib.
chroot "$root" sh -ec 'cd /tmp
    apt-get -qq download "$@"
    for part in *.deb; do
        dpkg-deb --fsys-tarfile "$part" | tar -x -C / --keep-directory-symlink
        rm "$part"
    done' sh "$package" $parts
version=${package#linux-image-}
version=${version%-unsigned}
chroot "$root" depmod "$version"
# Since 7.3 it lies with its modules.
[ -e "$root/boot/vmlinuz-$version" ] || mv "$root/usr/lib/modules/$version/vmlinuz" "$root/boot/vmlinuz-$version"
mv "$root/boot/vmlinuz-$version" "$root/boot/vmlinuz"
echo "$version" >"$root/boot/version"

# ---- initrd -------------------------------------------------------------------------------
# Debian's takes half a minute under emulation. This one loads three drivers and mounts /dev/vda.
initrd=$root/tmp/initrd
mkdir -p "$initrd/bin" "$initrd/dev" "$initrd/proc" "$initrd/sys" "$initrd/newroot" "$initrd/modules"
cp "$root/bin/busybox" "$initrd/bin/busybox"
install -m 755 "$MAPPER_VM_RECIPE/init" "$initrd/init"
: >"$initrd/modules/order"
for module in virtio_pci virtio_blk ext4; do
    chroot "$root" modprobe --set-version "$version" --show-depends "$module" |
        sed -n 's/^insmod \([^ ]*\).*/\1/p' |
        while read -r path; do
            name=$(basename "$path")
            name=${name%.xz}
            grep -qx "$name" "$initrd/modules/order" && continue
            case $path in
                *.xz) chroot "$root" busybox unxz -c "$path" >"$initrd/modules/$name" ;;
                *) cp "$root/$path" "$initrd/modules/$name" ;;
            esac
            echo "$name" >>"$initrd/modules/order"
        done
done
chroot "$root" sh -c 'cd /tmp/initrd && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1' >"$root/boot/initrd"
rm -r "$initrd"

# ---- users and identity -------------------------------------------------------------------
for user in alice bob; do
    chroot "$root" useradd --create-home --shell /bin/sh "$user"
done
# A fixed identity: with none, systemd takes every boot for the first one and applies presets.
echo 00000000000000000000000000000001 >"$root/etc/machine-id"
echo mapper-guest >"$root/etc/hostname"

# ---- services -----------------------------------------------------------------------------
install -m 644 "$MAPPER_VM_RECIPE/payload.service" "$root/etc/systemd/system/payload.service"
install -m 755 "$MAPPER_VM_RECIPE/run-payload.sh" "$root/usr/local/sbin/run-payload.sh"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/etc/systemd/journald.conf.d"
ln -s ../payload.service "$root/etc/systemd/system/multi-user.target.wants/payload.service"
printf '[Journal]\nStorage=volatile\nRateLimitIntervalSec=0\n' \
    >"$root/etc/systemd/journald.conf.d/guest.conf"
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    fstrim.timer systemd-tmpfiles-clean.timer e2scrub_reap.service getty.target \
    getty@.service serial-getty@.service systemd-timesyncd.service systemd-networkd.service \
    systemd-resolved.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
    systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
    systemd-udev-trigger.service systemd-udev-settle.service systemd-random-seed.service \
    systemd-pstore.service systemd-journal-flush.service systemd-remount-fs.service \
    systemd-modules-load.service systemd-sysctl.service systemd-logind.service \
    sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount \
    kmod-static-nodes.service modprobe@.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

# ---- what only takes room -----------------------------------------------------------------
rm -rf "$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/locale" \
    "$root/usr/lib/modules/$version/kernel/sound" "$root/usr/lib/modules/$version/kernel/drivers/gpu"
