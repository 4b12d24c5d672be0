#!/bin/sh
find /etc /usr /var /opt /run/systemd/system /home -xdev \
    -path /var/lib/dpkg -prune -o -path /var/log -prune -o -path /var/cache -prune -o \
    -path /var/tmp -prune -o -path /var/lib/systemd -prune -o -path /etc/ld.so.cache -prune -o \
    -path /var/lib/containers -prune -o -path /var/lib/munge -prune -o \
    -print
find /etc/systemd /var/lib/systemd -name '*mapper*'
