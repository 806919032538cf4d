"""Micro-kernels of one's own for tests: right ones, and such as are wrong in every way."""

MATMUL = """
#include <stdint.h>
void product(const float *restrict a, const float *restrict b, float *restrict c) {
  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) c[i * N + j] = 0.0f;
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
  }
}
"""
SIZED = """
#include <stdint.h>
void product(const float *a, const float *b, float *c, int64_t m, int64_t k) {
  for (int64_t i = 0; i < m; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0.0f;
      for (int64_t l = 0; l < k; ++l) sum += a[i * k + l] * b[l * N + j];
      c[i * N + j] = sum;
    }
}
"""
WRONG = MATMUL.replace("+= a", "-= a")
BEYOND = MATMUL.replace("}\n}\n", "}\n  c[M * N] = 1.0f;\n}\n")
CRASHES = "void product(const float *a, const float *b, float *c) { *(volatile int *)8 = 1; }\n"
NO_C = "void product(const float *a, { }\n"
CALLS_NOBODY = "void nobody(void);\nvoid product(const float *a, const float *b, float *c) { nobody(); }\n"
CONTRACT = """
symbol = "product"
source = "product.c"
flags = ["-O3", "-march=native"]
[computes]
op = "matmul"
"""
SLOW_FAMILY = '''
from dataclasses import dataclass
from autotune.core.plugs.rewrites import Rewrites
from autotune.core.space import Space

@dataclass(frozen=True)
class Slow:
    """Does nothing to a task: loops over scalars."""
    name: str = "slow"
    fallback: bool = False
    def covers(self, task): return True
    def space(self, task, machine): return Space(())
    def default(self, task, machine): return {}
    def build(self, task, config, machine): return ""
    def rewrites(self, task, config): return Rewrites()

SLOW = Slow()
'''


def write_library(folder, code=MATMUL, contract=CONTRACT, name="mine"):
    """A contract and its C in a folder; gives the spec of its back end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "product.c").write_text(code)
    (folder / f"{name}.toml").write_text(contract)
    return f"library:{folder / name}.toml"
