"""Several processes of one program, as mpirun starts them: started together, each sums its part, the first adds up.

mapper manages them as one application, which shares its CPUs.
"""

import multiprocessing
import sys

import mapper


def rank(number, size, results):
    part = range(number, 4_000_000, size)
    results.put((number, sum(part)))
    mapper.work_done(len(part))


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    start = multiprocessing.get_context("spawn")
    results = start.Queue()
    ranks = [start.Process(target=rank, args=(number, size, results)) for number in range(size)]
    for process in ranks:
        process.start()
    sums = dict(results.get() for _ in ranks)
    for process in ranks:
        process.join()
    print(f"{len(sums)} ranks, sum {sum(sums.values())}, exit {max(process.exitcode for process in ranks)}")
