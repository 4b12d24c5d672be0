"""A job beside the notebook, which says in the end how many CPUs it had at most."""

import mapper
import numpy

mapper.follow()
matrix = numpy.ones((500, 500))
most = 0
for _ in range(200):
    assert (matrix @ matrix)[0, 0] == 500
    mapper.work_done()
    most = max(most, mapper.cpus())
print("the job is done")
