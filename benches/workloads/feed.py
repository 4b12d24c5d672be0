"""Training that has to be fed: `--workers` processes make pictures on the CPU, and PyTorch trains a network with them,
on a GPU if there is one, in `--steps` steps of `--size` pictures.

A GPU is idle while it waits for pictures, so what the workers get of the CPUs decides how fast this is. Each step is
reported to mapper, which judges the program by its steps per second.

It checks that the loss has fallen. The checksum over all pictures is the same for any number of workers and threads:
compare it with that of another run.

Ends with the same line of JSON as the C programs next to it; the time is that of the steps.
"""

import argparse
import json
import sys
import time
import zlib

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

try:
    from mapper import work_done
except ImportError:

    def work_done(amount):
        """Without the package of mapper, steps are not reported."""


SIDE = 64
KINDS = 4


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a number above 0, got {text!r}")
    return number


class Pictures(Dataset):
    """Stripes of as many kinds, turned, smoothed and with noise; each picture depends on its number alone."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        random = torch.Generator().manual_seed(number)
        kind = number % KINDS
        rows = torch.linspace(0, 6.28 * (kind + 1) * 2, 2 * SIDE)
        picture = torch.sin(rows)[None, None, :, None].expand(1, 3, -1, 2 * SIDE)
        picture = picture + torch.randn(picture.shape, generator=random)
        angle = 0.6 * torch.rand((), generator=random) - 0.3
        turn = torch.stack([angle.cos(), -angle.sin(), torch.zeros(()), angle.sin(), angle.cos(), torch.zeros(())])
        places = functional.affine_grid(turn.reshape(1, 2, 3), [1, 3, SIDE, SIDE], align_corners=False)
        picture = functional.grid_sample(picture, places, mode="bicubic", align_corners=False)
        picture = functional.avg_pool2d(picture, 5, stride=1, padding=2)
        return picture[0], kind


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(256, KINDS),
    )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size", type=positive, default=32, help="pictures of a step")
    options.add_argument("--steps", type=positive, default=100)
    options.add_argument("--workers", type=positive, default=2, help="processes that make pictures")
    best = "cuda" if torch.cuda.is_available() else "cpu"
    options.add_argument("--device", default=best, help="what trains: cpu, or cuda for a GPU")
    options = options.parse_args()

    device = torch.device(options.device)
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    pictures = Pictures(options.size * options.steps)
    feed = DataLoader(pictures, options.size, num_workers=options.workers, pin_memory=device.type == "cuda")
    losses, checksum = [], 0
    start = time.monotonic()
    for batch, kinds in feed:
        checksum = zlib.crc32(batch.numpy(), checksum)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(batch.to(device)), kinds.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        work_done(1)
    seconds = time.monotonic() - start

    few = max(1, len(losses) // 5)
    before, after = sum(losses[:few]) / few, sum(losses[-few:]) / few
    ok = after < 0.7 * before
    if not ok:
        print(f"WRONG feed: the loss went from {before:.3f} to {after:.3f}, wanted 0.7 of it", file=sys.stderr)
    line = {
        "program": "feed",
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "size": options.size,
        "steps": options.steps,
        "workers": options.workers,
        "device": str(device),
        "checksum": checksum,
        "ok": ok,
    }
    print(json.dumps(line))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
