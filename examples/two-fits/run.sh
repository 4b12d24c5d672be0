#!/bin/sh
# Two fits at the same time: each gets its own CPUs, and all of them when the other has ended.
cd "$(dirname "$0")" || exit
mapper run --quiet --name fit-a -- python fit.py "$@" &
mapper run --quiet --name fit-b -- python fit.py "$@"
wait
