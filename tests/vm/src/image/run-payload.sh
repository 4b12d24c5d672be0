#!/bin/sh
# Unpacks the payload disk, runs its run.sh and writes the exit status to the result disk, with
# whatever the payload has put into /result.
#
# Output goes to the second serial port, straight: with a pipe between, a process that the payload
# leaves behind would keep the machine running. There is no orderly shutdown: it would take longer
# than many a test.
disk_with_serial() {
    for block in /sys/block/vd*; do
        [ "$(cat "$block/serial")" = "$1" ] && echo "/dev/${block##*/}"
    done
}
mkdir -p /payload /result
tar -xf "$(disk_with_serial payload)" -C /payload
cd /payload || exit 1
stty -F /dev/ttyS1 raw -echo
./run.sh >/dev/ttyS1 2>&1
echo $? >/result/status
# Waits until everything is sent.
stty -F /dev/ttyS1 raw
tar -cf "$(disk_with_serial result)" -C /result .
sync
echo o >/proc/sysrq-trigger
sleep 60
