"""Backends: other compilers and users' C kernels, which compete with schedules for tasks.

    generators --Question, Order--> external_code, in a process without MLIR --Backend--> MadeObject
    rewrites: placeholder operations for kernels, and their lowering to calls

`plugin` is the interface to the engine: the `Rivals` of a search. `backend` defines the `Backend` protocol of plug-ins,
which register under ``autotune.backends``; `library` and `tvm` are built in.
"""
