#!/bin/sh
# Run by mmdebstrap once the packages are installed; $1 is the root of the new system.
#
# Adds the kernel, the initrd, two unprivileged users and the one unit that runs the payload, and
# switches off what a throw-away test machine does not need. Everything it needs from the outside
# comes in through MAPPER_VM_RECIPE (the folder this script lies in) and MAPPER_VM_BACKPORTS (an
# apt source line for a newer kernel, may be empty).
set -eu
root=$1

# ---- kernel -------------------------------------------------------------------------------
# The package is unpacked, not installed: installing it would pull in initramfs-tools and build a
# large initrd, which takes longer than all the rest and is not used.
kernel_package() {
    chroot "$root" apt-cache ${1:+-t "$1"} depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1
}
package=
if [ -n "${MAPPER_VM_BACKPORTS:-}" ]; then
    echo "$MAPPER_VM_BACKPORTS" >"$root/etc/apt/sources.list.d/backports.list"
    suite=$(echo "$MAPPER_VM_BACKPORTS" | awk '{print $3}')
    if chroot "$root" apt-get -qq update; then
        package=$(kernel_package "$suite")
    else
        echo "no backports to be had: the stock kernel is taken" >&2
        rm "$root/etc/apt/sources.list.d/backports.list"
        chroot "$root" apt-get -qq update
    fi
fi
[ -n "$package" ] || package=$(kernel_package "")
[ -n "$package" ] || { echo "no cloud kernel in the apt sources" >&2; exit 1; }
# Not `dpkg-deb -x`, which would put a folder in the place of the link /lib.
chroot "$root" sh -c "cd /tmp && apt-get -qq download $package &&
    dpkg-deb --fsys-tarfile $package*.deb | tar -x -C / --keep-directory-symlink &&
    rm $package*.deb"
version=${package#linux-image-}
version=${version%-unsigned}
chroot "$root" depmod "$version"
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
