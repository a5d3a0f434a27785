"""Pictures resized, made grey and stacked by PyTorch operations, one thread: torch_image_transforms.py SECONDS [SIDE TO STACK].

A batch of u8 pictures [N, SIDE, SIDE, 3] as environments give them, to u8 [N, TO, TO, STACK] as a replay keeps them: luma, means
of areas, a roll of what was seen before. Prints one JSON object with pictures a second for each N.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F


def main():
    seconds = float(sys.argv[1])
    side, to, stack = (int(x) for x in sys.argv[2:5]) if len(sys.argv) > 4 else (84, 64, 3)
    torch.set_num_threads(1)
    luma = torch.tensor([0.299, 0.587, 0.114])
    rates = {}
    for count in (16, 64, 256):
        drawn = torch.randint(0, 256, (count, side, side, 3), dtype=torch.uint8)
        seen = torch.zeros(count, to, to, stack, dtype=torch.uint8)

        def see():
            grey = (drawn.float() @ luma).unsqueeze(1)
            small = F.interpolate(grey, (to, to), mode="area").round().to(torch.uint8).squeeze(1)
            seen.copy_(torch.cat([small.unsqueeze(-1), seen[..., :-1]], -1))

        see()
        done, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            see()
            done += count
        rates[count] = done / (time.perf_counter() - begin)
    print(json.dumps({"torch": torch.__version__, "side": side, "to": to, "stack": stack, "pictures_s": rates}))


if __name__ == "__main__":
    main()
