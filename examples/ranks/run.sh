#!/bin/sh
# Four processes under one launch. With MPI: mapper run -- mpirun --bind-to none -n 4 ./program
cd "$(dirname "$0")" || exit
mapper run --quiet -- python ranks.py 4
