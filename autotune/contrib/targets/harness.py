"""C harness for an emitted function: read a memory image, call the function once, write the image."""

from collections.abc import Sequence

from autotune.bundles.c_header import C_TYPES
from autotune.contrib.targets.images import ALIGNMENT, ImageLayout
from autotune.core.payload import WRITTEN, Argument


def c_harness(name: str, arguments: Sequence[Argument], layout: ImageLayout) -> str:
    """Return a C program that reads an image from stdin, calls a function on its arrays, and writes it to stdout.

    Args:
        name: Name of the function, and of its header.
        arguments: Arguments of the function.
        layout: Offsets of their arrays in the image.
    """
    pointers = ",\n       ".join(
        f"({'' if a.role in WRITTEN else 'const '}{C_TYPES[a.dtype]} *)(image + {offset})"
        for a, offset in zip(arguments, layout.offsets, strict=True)
    )
    size = -(-layout.size // ALIGNMENT) * ALIGNMENT
    return f"""\
#include "{name}.h"
#include <stdio.h>
#include <stdlib.h>

int main(void) {{
  char *image = aligned_alloc({ALIGNMENT}, {size});
  if (!image || fread(image, 1, {layout.size}, stdin) != {layout.size}) return 1;
  {name}({pointers});
  return fwrite(image, 1, {layout.size}, stdout) != {layout.size} || fflush(stdout);
}}
"""
