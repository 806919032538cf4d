"""PyTorch backend of tuned programs: ``torch.compile(model, backend="autotune")`` and ``autotune.torch.compile``.

    Dynamo --graph--> backend --aten ops--> graphs --regions--> programs --import, schedules--> object code, cached
                                               call: addresses of tensors in, tensors out

Regions of a graph that the importer does not support are run by PyTorch.
"""
