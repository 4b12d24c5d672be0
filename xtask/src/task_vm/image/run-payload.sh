#!/bin/sh
# Unpacks the payload disk, runs its run.sh and writes what came out to the result disk.
#
# Output goes to the second serial port as it comes (the host shows it) and into the result, with
# the exit status. There is no orderly shutdown: it would take longer than many a test.
disk_with_serial() {
    for block in /sys/block/vd*; do
        [ "$(cat "$block/serial")" = "$1" ] && echo "/dev/${block##*/}"
    done
}
mkdir -p /payload /result
tar -xf "$(disk_with_serial payload)" -C /payload
cd /payload || exit 1
stty -F /dev/ttyS1 raw -echo 2>/dev/null
{
    ./run.sh
    echo $? >/result/status
} 2>&1 | tee /result/output >/dev/ttyS1
cd /
tar -cf "$(disk_with_serial result)" -C /result .
sync
echo o >/proc/sysrq-trigger
sleep 60
