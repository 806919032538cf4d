"""PyTorch's modules on our programs: ``torch.compile(model, backend="autotune")`` and ``autotune.torch.compile``.

    Dynamo --graph--> backend --aten ops--> graphs --regions--> programs --import, schedules--> object code, kept
                                               call: addresses of tensors in, tensors out

Regions of a graph that the importer does not cover run as PyTorch runs them.
"""
