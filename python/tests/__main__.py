"""Runs the tests of the Python package, of the examples and of the pages, and ends with the line ``N passed, M failed``."""

import pathlib
import sys
import unittest

folder = pathlib.Path(__file__).parent
sys.path.insert(0, str(folder))
pattern = sys.argv[1] if len(sys.argv) > 1 else "test_*.py"
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(
    unittest.TestLoader().discover(str(folder), pattern)
)
# A test that is left out is one that does not hold.
failed = len(result.failures) + len(result.errors) + len(result.skipped)
print(f"{result.testsRun - failed} passed, {failed} failed")
sys.exit(failed > 0 or result.testsRun == 0)
