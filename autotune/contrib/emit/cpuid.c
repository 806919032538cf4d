/* What this processor can, and what its system saves of it (Intel SDM, volume 2, CPUID and XGETBV). */

#ifdef __x86_64__
#include <cpuid.h>

static int has_feature(const struct feature *feature) {
  unsigned found[4];
  if (!__get_cpuid_count(feature->leaf, feature->subleaf, &found[0], &found[1], &found[2], &found[3])) return 0;
  return found[feature->part] >> feature->bit & 1;
}

static int saves(unsigned wanted) {
  unsigned low, high;
  if (wanted == 0) return 1;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & wanted) == wanted;
}

static int can_run(const struct variant *variant) {
  for (int i = 0; i < variant->features; ++i)
    if (!has_feature(&variant->feature[i])) return 0;
  return saves(variant->saved);
}
#endif
