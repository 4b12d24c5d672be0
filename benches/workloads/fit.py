"""Gradient boosting: scikit-learn's HistGradientBoostingClassifier, fitted `--steps` times to made-up
data of `--size` samples.

scikit-learn's wheels bring an OpenMP runtime of their own (a libgomp under another name, loaded with
local scope). A fit is thousands of short parallel regions: histograms of each feature, the best split
of each node, the gradients.

Checked: that the model has learnt (its score on data it has not seen), and by whoever compares runs,
the checksum over everything it predicts, which depends on no number of threads.

Ends with the same line of JSON as the C programs next to it; the time is that of the fits.
"""

import argparse
import json
import os
import sys
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

FEATURES = 20
ITERATIONS = 50
LEAST_SCORE = 0.8


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a number above 0, got {text!r}")
    return number


def data(samples, seed):
    """Points of two classes, divided by a surface that no single feature shows."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((samples, FEATURES))
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] ** 2 - 0.5 + x[:, 4] * np.abs(x[:, 5])
    return x, (score > 0).astype(np.int8)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size", type=positive, default=10000, help="samples")
    options.add_argument("--steps", type=positive, default=1, help="fits")
    options = options.parse_args()

    x, y = data(options.size, 1)
    unseen_x, unseen_y = data(2000, 2)
    checksum, worst = 0.0, 1.0
    start = time.monotonic()
    for step in range(options.steps):
        model = HistGradientBoostingClassifier(
            max_iter=ITERATIONS, early_stopping=False, random_state=step
        )
        model.fit(x, y)
        worst = min(worst, model.score(unseen_x, unseen_y))
        checksum += float(np.sum(model.predict_proba(unseen_x)[:, 1]))
    seconds = time.monotonic() - start

    ok = worst >= LEAST_SCORE
    if not ok:
        print(f"WRONG fit: the score is {worst:.3f}, wanted {LEAST_SCORE}", file=sys.stderr)
    line = {
        "program": "fit",
        "seconds": seconds,
        "threads": _openmp_effective_n_threads(),
        "size": options.size,
        "steps": options.steps,
        "checksum": checksum,
        "ok": bool(ok),
    }
    print(json.dumps(line))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
