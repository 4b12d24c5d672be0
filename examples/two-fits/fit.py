"""A fit of scikit-learn: k-means on points around eight centres. The number of points is the argument."""

import sys
import time

import mapper
import numpy
from sklearn.cluster import KMeans

mapper.follow()
rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
random = numpy.random.default_rng(1)
centres = numpy.arange(8)[:, None] * numpy.ones(16)
points = centres[random.integers(8, size=rows)] + random.normal(scale=0.1, size=(rows, 16))
begun = time.monotonic()
for _ in range(5):
    fit = KMeans(8, init=centres + 0.2, n_init=1).fit(points)
    mapper.work_done(rows)
found = numpy.sort(fit.cluster_centers_[:, 0]).round().astype(int)
print(f"centres {found.tolist()}, {time.monotonic() - begun:.1f} s")
