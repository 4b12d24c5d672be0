"""Stands for a notebook: it computes when a cell is run, here at each line that it reads, and is idle in between."""

import sys

import mapper
import numpy

mapper.follow()
matrix = numpy.ones((300, 300))
print("ready", flush=True)
for cell in sys.stdin:
    print(f"cell {cell.strip()}: {(matrix @ matrix)[0, 0]:.0f}", flush=True)
