"""A PyTorch program of the plain kind, recorded by its own profiler, for `./maglev trace analyze` (docs/trace_analysis.md).

    python examples/pytorch/profiled_training.py trace.json [--batched]

The data set gives one row at a time and its batches are put together in Python; --batched slices them in one piece.
"""

import argparse

import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

ROWS, FEATURES, CLASSES, BATCH = 4096, 64, 4, 128


class Rows(Dataset):
    def __init__(self):
        self.x = torch.randn(ROWS, FEATURES)
        self.y = torch.randint(0, CLASSES, (ROWS,))

    def __len__(self):
        return ROWS

    def __getitem__(self, place):
        return self.x[place], self.y[place]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--batched", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = Rows()
    if options.batched:
        # a batch's places at once: one slice in place of 128
        sampler = BatchSampler(RandomSampler(rows), BATCH, drop_last=True)
        loader = DataLoader(rows, sampler=sampler, batch_size=None)
    else:
        loader = DataLoader(rows, batch_size=BATCH, shuffle=True)
    network = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 256), torch.nn.Tanh(), torch.nn.Linear(256, CLASSES)
    )
    optimizer = torch.optim.Adam(network.parameters())
    steps = schedule(wait=1, warmup=2, active=20, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as profiler:
        for step, (x, y) in enumerate(loader):
            if step == 23:
                break
            loss = torch.nn.functional.cross_entropy(network(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()
    profiler.export_chrome_trace(options.trace)


if __name__ == "__main__":
    main()
