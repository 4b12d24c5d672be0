#!/bin/sh
# A service with a high promise beside a batch with a low one.
cd "$(dirname "$0")" || exit
mapper run --quiet --qos 0.5 --name batch -- python batch.py &
batch=$!
mapper run --quiet --qos 95% --name service -- python service.py "$@"
kill "$batch"
wait "$batch" || true
