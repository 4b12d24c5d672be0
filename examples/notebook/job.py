"""A job beside the notebook."""

import mapper
import numpy

mapper.follow()
matrix = numpy.ones((500, 500))
for _ in range(200):
    assert (matrix @ matrix)[0, 0] == 500
    mapper.work_done()
print("the job is done")
