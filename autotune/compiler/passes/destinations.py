"""Let a task that is compiled alone write to its results, as partitioning does for a whole payload.

    e = empty;  y = op into e;  y to %out   ->   y = op into %out

After the script it is too late: a result that is put together of the pieces of rows with peeled ends would be written
to a buffer, and copied.
"""

from mlir import ir

from autotune.compiler.tasks.elementwise import write_to_results


def write_task_to_results(module: ir.Module, entry: str) -> None:
    """Let the operations of a task write its results to the arguments of its function, in place."""
    write_to_results(module, entry)
