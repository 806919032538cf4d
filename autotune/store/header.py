"""What a store begins with, whatever keeps it: a first, empty study that names the format."""

from autotune.core.errors import StoreError

# 1: a first, empty study ``autotune/format-1``; one study a sweep, named ``payload/task/hash``, its user
#   attribute "sweep" = {payload, task, identity, flops, bytes}; one finished trial each, its user attribute "trial" =
#   Trial.to_json() with a non-finite max_error as a string; tune results in the study ``summary``. While a store is
#   copied into, the first study's user attribute "copy" says from where. On a PostgreSQL server each trial has a system
#   attribute too, what `inspect` shows of it in short: `BRIEF`.
FORMAT_VERSION = 1
HEADER = f"autotune/format-{FORMAT_VERSION}"
COPY = "copy"
# 1: number, outcome, seconds_median, seconds_normalised and the seconds of each phase, with commas between; as a
#   trial's system attribute. What is unknown is empty. Derived from the trial: one without it is read whole.
BRIEF = "autotune/brief-1"
WAY_OUT = "move it away or pass --store PATH"


def check_header(where: object, name: object) -> None:
    """Raise unless the first study's name is that of a store of this format."""
    if name == HEADER:
        return
    if str(name).startswith("autotune/format-"):
        raise StoreError(f"store must have format {FORMAT_VERSION}; {where} line 1 says {name!r}; {WAY_OUT}")
    raise StoreError(f"store must begin with an autotune header; {where} line 1 is something else; {WAY_OUT}")
