"""A service of which quick answers are wanted: mapper judges it by the latencies that it reports."""

import sys
import time

import mapper
import numpy

mapper.follow()
matrix = numpy.ones((200, 200))
latencies = []
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 300):
    time.sleep(0.01)  # until the next request
    begun = time.perf_counter()
    assert (matrix @ matrix)[0, 0] == 200
    latencies.append(time.perf_counter() - begun)
    mapper.latency(latencies[-1])
print(f"{len(latencies)} requests, p50 {numpy.percentile(latencies, 50) * 1e3:.2f} ms, ", end="")
print(f"p99 {numpy.percentile(latencies, 99) * 1e3:.2f} ms")
