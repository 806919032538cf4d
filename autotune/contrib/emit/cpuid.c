/* What this processor can, and what its system saves of it (Intel SDM, volume 2, CPUID and XGETBV). */

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>

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

/* Linux gives the registers of AMX to processes that ask (arch_prctl(2)). Objects with tiles do when they are loaded; one
   whose schedules came out without any does not, and is no less for this processor. */
static int may_use_tiles(unsigned wanted) {
  const unsigned long of_tiles = 18;
  if (!(wanted & 1u << of_tiles)) return 1;
  return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, of_tiles) == 0;
}

static int can_run(const struct variant *variant) {
  for (int i = 0; i < variant->features; ++i)
    if (!has_feature(&variant->feature[i])) return 0;
  return saves(variant->saved) && may_use_tiles(variant->saved);
}
#endif
