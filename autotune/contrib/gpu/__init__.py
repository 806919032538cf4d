"""Kernels for GPUs, verified without a GPU: `autotune tune PAYLOAD --target vulkan`, or `nvptx:sm_90`.

    Task, config --family--> transform script --kernel--> Kernel (gpu.func) --spirv--> SPIR-V --vulkan--> correct?
                                                                 |--interpret--> correct? races, operation counts
                                                                 '--nvptx--> PTX --ptxas--> registers, spills

Nothing is measured: configs are compared by a cost model of the device (`model`), on the counts of `interpret`.
"""
