"""A simulated wafer-scale mesh: cores with memory of their own, links between neighbours, nothing shared.

grid       the machine, from a TOML file
program    ops of a payload, what they read and hold, and the units a pipeline is cut into
collective sums, copies and moves along a line of cores, in cycles
layout     which core holds which part of a value
mapping    which loops are spread over rows and columns of cores, and how many regions there are
placement  regions of the grid, in which order the pipeline walks them
simulate   cycles of every op, bytes of every core, seconds of a call or a batch
traffic    bytes over every link
cost       all that as a cost function; pictures
"""
