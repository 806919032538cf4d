"""Kernels for GPUs, verified where there is none: `autotune tune PAYLOAD --target vulkan`, or `nvptx:sm_90`.

    Task, config --family--> transform script --kernel--> Kernel (gpu.func) --spirv--> SPIR-V --vulkan--> right or not
                                                                 |--threads--> right or not, races, what is counted
                                                                 '--nvptx--> PTX --ptxas--> registers, spills

Nothing is measured: configs are compared by a model of the device (`model`), whose counts `threads` gives.
"""
