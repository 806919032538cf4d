"""The only device: tensors reside in host memory."""

from autotune.core.errors import TensorError

CPU = "cpu"


def on_cpu(name: str, device: object) -> None:
    """Check that a device is the CPU.

    Args:
        name: Name of the operation, for the message.
        device: Name of the device; `None` for the default.

    Raises:
        TensorError: There is no such device.
    """
    if device not in (None, CPU):
        raise TensorError(f"the device of {name} must be {CPU!r} or None, got {device!r}")
