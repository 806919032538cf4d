"""A powercap tree in a folder, and a thread that moves its counters as a processor of so many watts would."""

import os
import threading
import time
from contextlib import contextmanager

RANGE = 262_143_328_850  # of a real one, microjoules


def write_zone(root, zone, name, counter=0, most=RANGE):
    """A zone of the tree."""
    folder = root / zone
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{most}\n")
    set_counter(folder, counter)
    return folder


def set_counter(folder, microjoules):
    """Move a counter; whoever reads it meanwhile sees the old or the new one."""
    fresh = folder / "fresh"
    fresh.write_text(f"{int(microjoules)}\n")
    os.replace(fresh, folder / "energy_uj")


@contextmanager
def burning(root, watts):
    """Move the counter of a package meanwhile."""
    folder = write_zone(root, "intel-rapl:0", "package-0")
    done, begin = threading.Event(), time.perf_counter()

    def burn():
        while not done.wait(0.001):
            set_counter(folder, 1e6 * watts * (time.perf_counter() - begin))

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
