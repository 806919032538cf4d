"""Back ends: other compilers, and people's own C, which compete with schedules for tasks.

    generators --Question, Order--> external_code, in a process without MLIR --Backend--> MadeObject
    rewrites: ops that stand for a kernel's call in a program, and the call

`plugin` is what the engine knows of it: `Rivals` of a search. `backend` holds the `Backend` that plug-ins register
under ``autotune.backends``; `library` and `tvm` are such.
"""
