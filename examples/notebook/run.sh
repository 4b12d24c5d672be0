#!/bin/sh
# A notebook between two cells beside a job.
cd "$(dirname "$0")" || exit
cells=$(mktemp -u)
mkfifo "$cells"
mapper run --quiet --name notebook -- python notebook.py <"$cells" &
exec 3>"$cells"
rm "$cells"
echo 1 >&3
mapper run --quiet --name job -- python job.py
echo 2 >&3
exec 3>&-
wait
