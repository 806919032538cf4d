"""Models of timm and transformers with random weights, small, and seven in the sizes that people have.

``python foreign_zoo.py NAME FILE`` writes one as ``.onnx`` or ``.pt2``, and FILE.npz beside it: inputs of two seeds,
and what PyTorch computes of them in float64 and in float32.
"""

import copy
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Module = Any  # torch is an extra
Exhibit = tuple[Module, tuple[Any, ...]]
SEEDS = (0, 1)
TOKENS = 16  # of a text of a small model
WIDE, WORDS = 64, 500  # and its channels, and its vocabulary


class AnyClass(type):
    """A class whose every attribute is a text."""

    def __getattr__(cls, name: str) -> str:
        """Text of an attribute's name, such as that of an interpolation."""
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class NoTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of torchvision, which timm imports, and of which its models need nothing."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:  # noqa: ANN401
        """Spec of any module of torchvision's."""
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith("torchvision") else None

    def create_module(self, spec: Any) -> types.ModuleType:  # noqa: ANN401
        """A module of which any name can be imported."""

        class Stub(types.ModuleType):
            def __getattr__(self, name: str) -> AnyClass:
                if name.startswith("__"):
                    raise AttributeError(name)
                return AnyClass(name, (), {})

        return Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is to be run."""


def picture_model(name: str, side: int = 64, **sizes: Any) -> Callable[[], Exhibit]:  # noqa: ANN401
    """A model of timm on one picture."""

    def make() -> Exhibit:
        if importlib.util.find_spec("torchvision") is None:
            sys.meta_path.append(NoTorchvision())
        import timm  # takes seconds
        import torch

        chosen = {"num_classes": 10, **sizes}
        return timm.create_model(name, **chosen), (torch.randn(1, 3, side, side),)

    return make


def text_model(
    name: str,
    config: str = "",
    *,
    tokens: int = TOKENS,
    words: int = WORDS,
    **sizes: Any,  # noqa: ANN401
) -> Callable[[], Exhibit]:
    """A model of transformers on the tokens of one text."""

    def make() -> Exhibit:
        import torch

        return named_model(name, config, {"vocab_size": words, **sizes}, "input_ids"), (
            torch.randint(3, words, (1, tokens)),
        )

    return make


def sense_model(name: str, argument: str, *shape: int, **sizes: Any) -> Callable[[], Exhibit]:  # noqa: ANN401
    """A model of transformers on a picture, a sound or a spectrum."""

    def make() -> Exhibit:
        import torch

        return named_model(name, "", sizes, argument), (torch.randn(*shape),)

    return make


def named_model(name: str, config: str, sizes: Mapping[str, Any], argument: str) -> Module:
    """A class of transformers, of whose results the first is taken."""
    import transformers
    from torch import nn

    stem = name.removesuffix("Model").removesuffix("Encoder").removesuffix("ForCausalLM").removesuffix("LMHead")
    described = getattr(transformers, config or f"{stem}Config")(**sizes)
    described.use_cache = False
    described._attn_implementation = "eager"
    made = getattr(transformers, name)(described)
    whole = made.encoder if name in ENCODERS else made

    class First(nn.Module):  # type: ignore[misc]
        """A model of one argument, and its first result."""

        def __init__(self) -> None:
            super().__init__()
            self.model = whole

        def forward(self, x: Any) -> Any:  # noqa: ANN401 - tensors
            return self.model(**{argument: x})[0]

    return First()


ENCODERS = ("WhisperModel", "BartModel")  # of which the first half is taken
BERT = {"hidden_size": WIDE, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
LLAMA = {**BERT, "num_key_value_heads": 2, "pad_token_id": 0}
VIT = {**BERT, "image_size": 64, "patch_size": 16}
CLIP = {**BERT, "projection_dim": 32}
PICTURE = ("pixel_values", 1, 3, 64, 64)

# In the sizes that people have; Qwen2 has the widths of its 0.5 B, two of its 24 layers, and a fifth of its vocabulary.
FULL: dict[str, Callable[[], Exhibit]] = {
    "convnext-tiny": picture_model("convnext_tiny", 224, num_classes=1000),
    "regnety-008": picture_model("regnety_008", 224, num_classes=1000),
    "resnet-18": picture_model("resnet18", 224, num_classes=1000),
    "resnet-50": picture_model("resnet50", 224, num_classes=1000),
    "mobilenetv2": picture_model("mobilenetv2_100", 224, num_classes=1000),
    "mobilenetv3-large": picture_model("mobilenetv3_large_100", 224, num_classes=1000),
    "efficientnet-b0": picture_model("efficientnet_b0", 224, num_classes=1000),
    "densenet-121": picture_model("densenet121", 224, num_classes=1000),
    "deit-small": picture_model("deit_small_patch16_224", 224, num_classes=1000),
    "swin-tiny": picture_model("swin_tiny_patch4_window7_224", 224, num_classes=1000),
    "distilbert-base": text_model("DistilBertModel", tokens=128, words=30522),
    "t5-small encoder": text_model("T5EncoderModel", "T5Config", tokens=128, words=32128, d_model=512, num_layers=6),
    "clip text": text_model("CLIPTextModel", tokens=77, words=49408),
    "pythia-70m": text_model(
        "GPTNeoXForCausalLM",
        tokens=64,
        words=50304,
        hidden_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        intermediate_size=2048,
    ),
    "qwen2-0.5b, 2 layers": text_model(
        "Qwen2ForCausalLM",
        tokens=64,
        words=30000,
        hidden_size=896,
        num_hidden_layers=2,
        num_attention_heads=14,
        num_key_value_heads=2,
        intermediate_size=4864,
        tie_word_embeddings=True,
    ),
}

SMALL: dict[str, Callable[[], Exhibit]] = {
    "convnext": picture_model("convnext_atto", depths=(1, 1, 2, 1)),
    "convnextv2": picture_model("convnextv2_atto", depths=(1, 1, 2, 1)),
    "regnety": picture_model("regnety_002"),
    "regnetx": picture_model("regnetx_002"),
    "swin": picture_model(
        "swin_tiny_patch4_window7_224", 112, img_size=112, depths=(2, 2), num_heads=(2, 4), embed_dim=32
    ),
    "swinv2": picture_model(
        "swinv2_tiny_window8_256", 64, img_size=64, depths=(2, 2), num_heads=(2, 4), embed_dim=32, window_size=4
    ),
    "densenet": picture_model("densenet121", growth_rate=8, block_config=(2, 3, 2, 2)),
    "efficientnet": picture_model("efficientnet_b0"),
    "efficientnetv2": picture_model("tf_efficientnetv2_b0"),
    "mobilenetv3": picture_model("mobilenetv3_small_050"),
    "mobilenetv4": picture_model("mobilenetv4_conv_small_035"),
    "vit": picture_model("vit_tiny_patch16_224", img_size=64, depth=2),
    "deit": picture_model("deit_tiny_distilled_patch16_224", img_size=64, depth=2),
    "cait": picture_model("cait_xxs24_224", img_size=64, depth=2),
    "beit": picture_model("beit_base_patch16_224", img_size=64, depth=2, embed_dim=64, num_heads=2),
    "xcit": picture_model("xcit_nano_12_p16_224", img_size=64, depth=2),
    "maxvit": picture_model("maxvit_rmlp_pico_rw_256", img_size=64),
    "coatnet": picture_model("coatnet_pico_rw_224", img_size=64),
    "levit": picture_model("levit_128s", 224),
    "mobilevit": picture_model("mobilevit_xxs"),
    "edgenext": picture_model("edgenext_xx_small"),
    "fastvit": picture_model("fastvit_t8"),
    "efficientformer": picture_model("efficientformer_l1", 224),
    "poolformer": picture_model("poolformer_s12"),
    "mixer": picture_model("mixer_s32_224", img_size=64),
    "resmlp": picture_model("resmlp_12_224", img_size=64),
    "resnest": picture_model("resnest14d"),
    "res2net": picture_model("res2net50_26w_4s", layers=(1, 1, 1, 1)),
    "skresnet": picture_model("skresnet18"),
    "seresnet": picture_model("seresnet18"),
    "repvgg": picture_model("repvgg_a0"),
    "mobileone": picture_model("mobileone_s0"),
    "ghostnet": picture_model("ghostnet_050"),
    "nfnet": picture_model("nf_regnet_b0"),
    "dla": picture_model("dla34"),
    "bert": text_model("BertModel", **BERT),
    "distilbert": text_model("DistilBertModel", dim=WIDE, n_layers=2, n_heads=4, hidden_dim=128),
    "roberta": text_model("RobertaModel", **BERT),
    "albert": text_model("AlbertModel", embedding_size=32, **BERT),
    "electra": text_model("ElectraModel", embedding_size=32, **BERT),
    "deberta-v2": text_model(
        "DebertaV2Model", relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"], **BERT
    ),
    "mpnet": text_model("MPNetModel", **BERT),
    "funnel": text_model("FunnelModel", d_model=WIDE, n_head=4, d_head=16, d_inner=128, block_sizes=[1, 1, 1]),
    "longformer": text_model("LongformerModel", attention_window=8, **BERT),
    "xlnet": text_model("XLNetModel", d_model=WIDE, n_layer=2, n_head=4, d_inner=128),
    "squeezebert": text_model("SqueezeBertModel", embedding_size=WIDE, **BERT),
    "fnet": text_model("FNetModel", **BERT),
    "t5": text_model("T5EncoderModel", "T5Config", d_model=WIDE, num_layers=2, num_heads=4, d_kv=16, d_ff=128),
    "bart": text_model(
        "BartModel",
        d_model=WIDE,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        decoder_attention_heads=4,
    ),
    "clip-text": text_model("CLIPTextModel", bos_token_id=0, eos_token_id=2, **CLIP),
    "clip-vision": sense_model("CLIPVisionModel", *PICTURE, **CLIP, image_size=64, patch_size=16),
    "dinov2": sense_model("Dinov2Model", *PICTURE, **VIT),
    "segformer": sense_model(
        "SegformerModel", *PICTURE, depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64], num_attention_heads=[1, 2, 3, 4]
    ),
    "gpt2": text_model("GPT2LMHeadModel", n_embd=WIDE, n_layer=2, n_head=4),
    "gpt-neo": text_model(
        "GPTNeoForCausalLM",
        hidden_size=WIDE,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
    ),
    "gpt-neox": text_model("GPTNeoXForCausalLM", **BERT),
    "gptj": text_model("GPTJForCausalLM", n_embd=WIDE, n_layer=2, n_head=4, rotary_dim=8),
    "opt": text_model(
        "OPTForCausalLM",
        hidden_size=WIDE,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=128,
        word_embed_proj_dim=WIDE,
    ),
    "bloom": text_model("BloomForCausalLM", hidden_size=WIDE, n_layer=2, n_head=4),
    "falcon": text_model(
        "FalconForCausalLM", **{k: v for k, v in BERT.items() if k != "intermediate_size"}, ffn_hidden_size=128
    ),
    "llama": text_model("LlamaForCausalLM", **LLAMA),
    "mistral": text_model("MistralForCausalLM", sliding_window=8, **LLAMA),
    "mixtral": text_model("MixtralForCausalLM", num_local_experts=2, **LLAMA),
    "qwen2": text_model("Qwen2ForCausalLM", **LLAMA),
    "qwen3": text_model("Qwen3ForCausalLM", head_dim=16, **LLAMA),
    "phi": text_model("PhiForCausalLM", **LLAMA),
    "phi3": text_model("Phi3ForCausalLM", **LLAMA),
    "gemma": text_model("GemmaForCausalLM", head_dim=16, **LLAMA),
    "gemma2": text_model("Gemma2ForCausalLM", head_dim=16, **LLAMA),
    "olmo": text_model("OlmoForCausalLM", **LLAMA),
    "stablelm": text_model("StableLmForCausalLM", **LLAMA),
    "mamba": text_model("MambaForCausalLM", hidden_size=WIDE, num_hidden_layers=2, state_size=8),
    "whisper": sense_model(
        "WhisperModel",
        "input_features",
        1,
        80,
        64,
        d_model=WIDE,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        max_source_positions=32,
    ),
    "wav2vec2": sense_model(
        "Wav2Vec2Model",
        "input_values",
        1,
        2000,
        conv_dim=(32, 32, 32),
        conv_stride=(5, 2, 2),
        conv_kernel=(10, 3, 2),
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        **BERT,
    ),
}
ZOO = {**FULL, **SMALL}


def vary(model: Module) -> None:
    """Draw what initialisation leaves at 0, at 1 or near it, in place: else mistakes there would not be seen."""
    import torch

    for name, held in [*model.named_parameters(), *model.named_buffers()]:
        if not held.is_floating_point() or held.numel() < 2 or float(held.detach().std()) > 1e-3:
            continue
        middle = 1.0 if name.endswith(("weight", "gamma", "running_var", "lambda1", "scale")) else 0.0
        torch.nn.init.uniform_(held, middle - 0.2, middle + 0.2)


def write(name: str, path: Path) -> None:
    """Write a model, and what it computes."""
    import torch

    from payload.zoo import export

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, example = ZOO[name]()
    model = model.eval()
    vary(model)
    export(model, tuple(example), path)  # this draws statistics of batch norms
    wide, arrays = copy.deepcopy(model).double(), dict[str, Any]()
    for seed in SEEDS:
        torch.manual_seed(seed)
        given = [draw(x) for x in example]
        with torch.no_grad():
            exact = results_of(wide(*(x.double() if x.is_floating_point() else x for x in given)))
            single = results_of(model(*given))
        arrays |= {f"input/{seed}/{number}": x.numpy() for number, x in enumerate(given)}
        arrays |= {f"result/{seed}/{number}": x.numpy() for number, x in enumerate(exact)}
        arrays |= {f"single/{seed}/{number}": x.numpy() for number, x in enumerate(single)}
    np.savez(path.with_name(f"{path.name}.npz"), allow_pickle=False, **arrays)


def draw(example: Any) -> Any:  # noqa: ANN401 - tensors
    """An input like another."""
    import torch

    return torch.randn_like(example) if example.is_floating_point() else torch.randint_like(example, 3, WORDS)


def results_of(found: Any) -> list[Any]:  # noqa: ANN401
    """Results as a list."""
    return list(found) if isinstance(found, tuple | list) else [found]


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
