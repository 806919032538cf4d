"""Recorded spaces of this machine: `python results/spaces.py`, from the root of the repository, half an hour.

What is there already is left alone. Calls are short: what else works a core stretches every sample of a call that lasts
longer than the system lets others wait.
"""

import subprocess

from blocks import home

# By name: payload, task (empty: the only one), seed, most configs.
SPACES = {
    "attention_512": ("attention,heads=1,seq=512,d=64", "", 11, 220),
    "attention_causal_128": ("attention,heads=12,seq=128,d=64,causal=1", "", 24, 300),
    "convolution_784x64x576": ("results/payloads/convolution.mlir", "matmul_784x64x576_f32", 7, 300),
    "decode_1x3072x768": ("gpt2,function=decode", "matmul_1x3072x768_f32_w_fused_17642f", 8, 300),
    "fused_32x256x64": ("nano", "matmul_32x256x64_f32_w_fused_9188e4", 13, 220),
    "layer_norm_128x768": ("layer_norm,rows=128,cols=768", "", 6, 400),
    "matmul_128_stored": ("matmul,m=128,n=128,k=128,constant_b=1", "", 20, 220),
    "matmul_253_fresh": ("matmul,m=253,n=253,k=253", "", 17, 220),
    "matmul_256x512x512_stored": ("matmul,m=256,n=512,k=512,constant_b=1", "", 14, 220),
    "matmul_32x256x64_transposed": ("nano", "matmul_32x256x64_f32_tb_w", 19, 220),
    "matmul_512_fresh": ("matmul,m=512,n=512,k=512", "", 1, 300),
    "matmul_512_stored": ("matmul,m=512,n=512,k=512,constant_b=1", "", 2, 300),
    "matmul_64_fresh": ("matmul,m=64,n=64,k=64", "", 9, 300),
    "softmax_128x768": ("softmax,rows=128,cols=768", "", 5, 400),
}


def main() -> None:
    """Record what is missing; what was interrupted goes on."""
    for name, (payload, task, seed, trials) in SPACES.items():
        file = home() / "spaces" / f"{name}.xz"
        if file.exists() and not file.with_name(f"{file.name}.journal").exists():
            continue
        named = ["--task", task] if task else []
        amount = ["--seed", str(seed), "--trials", str(trials), "--timeout", "20"]
        subprocess.run(["autotune", "lab", "record", payload, *named, *amount, "-o", str(file)], check=True)


if __name__ == "__main__":
    main()
