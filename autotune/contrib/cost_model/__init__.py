"""The learned cost model: a sampler that models times by a Gaussian process, and `explain --model`."""
