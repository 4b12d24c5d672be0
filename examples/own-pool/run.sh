#!/bin/sh
# A C program whose pool of threads is as large as the CPUs that it has. Needs gcc and an installed libmapper with its
# header (pkg-config finds it); the source is that of the C library's example.
cd "$(dirname "$0")" || exit
built=$(mktemp -d)
trap 'rm -r "$built"' EXIT
# shellcheck disable=SC2046
gcc -pthread ../../crates/client-c/examples/pool.c $(pkg-config --cflags --libs mapper) -o "$built/pool" || exit
mapper run --quiet -- "$built/pool" "$@"
