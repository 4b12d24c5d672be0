"""Work without a deadline, until it is ended."""

import mapper
import numpy

mapper.follow()
matrix = numpy.ones((500, 500))
while True:
    assert (matrix @ matrix)[0, 0] == 500
    mapper.work_done()
