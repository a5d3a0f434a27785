"""What the scripts of storages share: the works, the clock, and how a figure is told."""

import json
import time

ROWS = (8, 16, 32, 64, 128)  # written a step
CAPACITY = {"vector": 65_536, "image": 4_096}  # rows of a storage that is written to
# 16 frames added, then 1,024 drawn, out of this many
FRAMES, ADDED, DRAWN = 16_384, 16, 1_024
ROW_BYTES = {"vector": 18 * 4, "image": 64 * 64 * 3}
WARM_UP, SAMPLES = 20, 3


def timed(call, seconds: float) -> dict:
    """Calls a second, of wall and of processor time: the median of three samples."""
    for _ in range(WARM_UP):
        call()
    rates = []
    for _ in range(SAMPLES):
        calls, wall, cpu = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - wall < seconds / SAMPLES:
            call()
            calls += 1
        rates.append(
            (calls / (time.perf_counter() - wall), calls / (time.process_time() - cpu))
        )
    wall, cpu = sorted(rates)[SAMPLES // 2]
    return {"per_second": wall, "per_cpu_second": cpu}


def tell(work: str, columns: str, rows: int, way: str, moved: int, call, seconds: float):
    """Measures `call`, which moves observations of `moved` rows, and prints it."""
    figure = {"work": work, "columns": columns, "rows": rows, "way": way}
    figure |= timed(call, seconds) | {"bytes": moved * ROW_BYTES[columns]}
    print(json.dumps(figure), flush=True)
