"""From the LLVM dialect to machine code: object files, external kernels, assembly and its model."""
