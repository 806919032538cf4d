"""Header of a store of any kind: a first, empty study whose name states the format."""

from autotune.core.errors import StoreError

# 1: a first, empty study ``autotune/format-1``; one study per sweep, named ``payload/task/hash``, with the user
#   attribute "sweep" = {payload, task, identity, flops, bytes}; one finished trial each, with the user attribute
#   "trial" = Trial.to_json() with a non-finite max_error as a string; tune results in the study ``summary``. During a
#   copy into the store, the first study's user attribute "copy" names the source. On a PostgreSQL server each trial
#   also has a system attribute with the summary that `inspect` shows: `BRIEF`.
FORMAT_VERSION = 1
HEADER = f"autotune/format-{FORMAT_VERSION}"
COPY = "copy"
# 1: number, outcome, seconds_median, seconds_normalised and the seconds of each phase, separated by commas, as a
#   trial's system attribute. Unknown values are empty. Derived from the trial; if it is missing, the trial is read.
BRIEF = "autotune/brief-1"
WAY_OUT = "move it away or pass --store PATH"


def check_header(where: object, name: object) -> None:
    """Raise unless the first study's name is that of a store of this format."""
    if name == HEADER:
        return
    if str(name).startswith("autotune/format-"):
        raise StoreError(f"store must have format {FORMAT_VERSION}; {where} line 1 says {name!r}; {WAY_OUT}")
    raise StoreError(f"store must begin with an autotune header; {where} line 1 is something else; {WAY_OUT}")
