"""Model zoo: PyTorch models of realistic sizes with random weights, to test and measure imports with.

Requires PyTorch, `transformers` for the named models, and `onnxscript` to write ONNX files.

``python -m payload.zoo NAME FILE`` writes one model.
"""

import contextlib
import io
import logging
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

Module = Any  # torch is an extra
Inputs = tuple[Any, ...]
Exhibit = tuple[Module, Inputs]
IMAGE = (3, 224, 224)


def write(name: str, path: Path) -> None:
    """Write a model of the zoo to a file, in the format of its suffix.

    Args:
        name: One of `ZOO`.
        path: File to write, ``.onnx`` or ``.pt2``.
    """
    import torch  # noqa: PLC0415 - comes with an extra

    torch.manual_seed(0)
    model, inputs = ZOO[name]()
    export(model, inputs, path)


def export(model: Module, inputs: Inputs, path: Path) -> None:
    """Write a model to a file, with random batch norm statistics: the initial 0 and 1 never occur after training."""
    import torch  # noqa: PLC0415

    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d) and part.running_mean is not None and part.running_var is not None:
            torch.nn.init.uniform_(part.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(part.running_var, 0.5, 1.5)
    if path.suffix == ".pt2":
        torch.export.save(torch.export.export(model.eval(), inputs), path)
        return
    logging.getLogger("onnxscript").setLevel(logging.ERROR)  # nodes it cannot fold stay in the model, no need to warn
    with contextlib.redirect_stdout(io.StringIO()):  # the exporter prints every step
        torch.onnx.export(model.eval(), inputs, path, dynamo=True, external_data=False)


def mlp() -> Exhibit:
    """Three linear layers on 32 digits of 784 pixels."""
    from torch import nn, randn  # noqa: PLC0415

    widths = (784, 512, 256, 10)
    layers: list[Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), (randn(32, 784),)


def encoder(width: int = 256, heads: int = 8, hidden: int = 1024, tokens: int = 128) -> Exhibit:
    """PyTorch's own encoder layer."""
    from torch import nn, randn  # noqa: PLC0415

    return nn.TransformerEncoderLayer(width, heads, hidden, batch_first=True), (randn(1, tokens, width),)


def bert(tokens: int = 128, **sizes: int) -> Exhibit:
    """BERT-base."""
    import transformers as t  # noqa: PLC0415

    model = t.BertModel(t.BertConfig(attn_implementation="eager", **sizes))
    return with_one_result(model, "last_hidden_state"), token_ids(tokens)


def gpt2(tokens: int = 128, **sizes: int) -> Exhibit:
    """GPT-2 small with logits at every position."""
    import transformers as t  # noqa: PLC0415

    model = t.GPT2LMHeadModel(t.GPT2Config(use_cache=False, attn_implementation="eager", **sizes))
    return with_one_result(model, "logits"), token_ids(tokens)


def llama(tokens: int = 128, **sizes: int) -> Exhibit:
    """Two layers of a Llama: rotary positions, shared keys and values, a gated feed-forward network."""
    import transformers as t  # noqa: PLC0415

    chosen = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 2, "num_attention_heads": 8}
    chosen |= {"num_key_value_heads": 4, "vocab_size": 32000, **sizes}
    model = t.LlamaForCausalLM(t.LlamaConfig(use_cache=False, attn_implementation="eager", **chosen))
    return with_one_result(model, "logits"), token_ids(tokens)


def vit() -> Exhibit:
    """ViT-base, 16x16 patches."""
    import transformers as t  # noqa: PLC0415

    model = t.ViTForImageClassification(t.ViTConfig(num_labels=1000, attn_implementation="eager"))
    return with_one_result(model, "logits", "pixel_values"), picture()


def resnet18() -> Exhibit:
    """ResNet-18."""
    import transformers as t  # noqa: PLC0415

    sizes = {"embedding_size": 64, "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic"}
    model = t.ResNetForImageClassification(t.ResNetConfig(num_labels=1000, **sizes))
    return with_one_result(model, "logits", "pixel_values"), picture()


def mobilenet() -> Exhibit:
    """MobileNetV2."""
    import transformers as t  # noqa: PLC0415

    model = t.MobileNetV2ForImageClassification(t.MobileNetV2Config(num_labels=1000))
    return with_one_result(model, "logits", "pixel_values"), picture()


def with_one_result(model: Module, result: str, argument: str = "input_ids") -> Module:
    """Wrap a model as a module of one argument and one of its results."""
    from torch import nn  # noqa: PLC0415

    class OneResult(nn.Module):  # type: ignore[misc]
        """Module that returns one result of a model."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:  # noqa: ANN401 - tensors
            return getattr(self.model(**{argument: x}), result)

    return OneResult()


def token_ids(tokens: int) -> Inputs:
    """Return the token ids of one text."""
    import torch  # noqa: PLC0415

    return (torch.zeros(1, tokens, dtype=torch.int64),)


def picture() -> Inputs:
    """Return one image."""
    import torch  # noqa: PLC0415

    return (torch.randn(1, *IMAGE),)


def layer(make: Callable[[Any], Module], *shapes: Sequence[int]) -> Callable[[], Exhibit]:
    """Return an exhibit of one layer of torch.nn, with inputs of the given shapes."""

    def exhibit() -> Exhibit:
        import torch  # noqa: PLC0415

        return make(torch.nn), tuple(torch.randn(*shape) for shape in shapes)

    return exhibit


def op(compute: Callable[..., Any], *shapes: Sequence[int], dtype: str = "float32") -> Callable[[], Exhibit]:
    """Return an exhibit of one torch expression, with inputs of the given shapes."""

    def exhibit() -> Exhibit:
        import torch  # noqa: PLC0415

        class Expression(torch.nn.Module):  # type: ignore[misc]
            """Module that computes one expression."""

            def forward(self, *inputs: Any) -> Any:  # noqa: ANN401 - tensors
                return compute(torch, *inputs)

        return Expression(), tuple(torch.randn(*shape).to(getattr(torch, dtype)) for shape in shapes)

    return exhibit


PLANES, ROWS = (1, 32, 56, 56), (128, 512)
MODELS: dict[str, Callable[[], Exhibit]] = {
    "mlp": mlp,
    "bert": bert,
    "gpt2": gpt2,
    "vit": vit,
    "llama": llama,
    "resnet18": resnet18,
    "mobilenet": mobilenet,
    "encoder": encoder,
}
OPS: dict[str, Callable[[], Exhibit]] = {
    "conv": layer(lambda nn: nn.Conv2d(32, 64, 3, padding=1, bias=False), PLANES),
    "conv_relu": layer(lambda nn: nn.Sequential(nn.Conv2d(32, 64, 3), nn.ReLU()), PLANES),
    "depthwise": layer(lambda nn: nn.Conv2d(64, 64, 3, padding=1, groups=64), (1, 64, 56, 56)),
    "group_conv": layer(lambda nn: nn.Conv2d(32, 64, 3, padding=1, groups=4), PLANES),
    "batch_norm": layer(lambda nn: nn.BatchNorm2d(32), PLANES),
    "max_pool": layer(lambda nn: nn.MaxPool2d(3, 2, 1), (4, 32, 64, 64)),
    "average_pool": layer(lambda nn: nn.AvgPool2d(2), (4, 32, 64, 64)),
    "global_pool": layer(lambda nn: nn.AdaptiveAvgPool2d(1), PLANES),
    "resize": layer(lambda nn: nn.Upsample(scale_factor=2, mode="nearest"), PLANES),
    "resize_bilinear": layer(lambda nn: nn.Upsample(scale_factor=2, mode="bilinear"), PLANES),
    "softmax": op(lambda t, x: t.softmax(x, -1), (128, 1024)),
    "layer_norm": layer(lambda nn: nn.LayerNorm(512), ROWS),
    "gelu": op(lambda t, x: t.nn.functional.gelu(x), ROWS),
    "argmax": op(lambda t, x: x.argmax(-1), ROWS),
    "cumsum": op(lambda t, x: x.cumsum(-1), ROWS),
    "sum": op(lambda t, x: x.sum(-1), ROWS),
    "bmm": op(lambda t, a, b: a @ b, (12, 128, 64), (12, 64, 128)),
    "matmul": layer(lambda nn: nn.Linear(1024, 512), (128, 1024)),
    "gather": op(lambda t, x: x[t.arange(0, 128, 3)], ROWS),
    "concat": op(lambda t, x, y: t.cat([x, y], 1), ROWS, ROWS),
    "pad": op(lambda t, x: t.nn.functional.pad(x, (1, 2, 3, 0)), ROWS),
    "where": op(lambda t, x, y: t.where(x > y, x, -y), ROWS, ROWS),
    "half": op(lambda t, a, b: t.relu(a @ b), (128, 256), (256, 512), dtype="float16"),
    "bfloat": op(lambda t, a, b: t.relu(a @ b), (128, 256), (256, 512), dtype="bfloat16"),
}
ZOO = {**MODELS, **OPS}


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
