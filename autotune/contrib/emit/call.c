/* A call of a library: what it was given is checked, then computed, one call at a time in a context. */

static int run_on(struct CONTEXT *context, const int64_t *request, void *const *memory) {
  if (context == NULL) return STATUS_CONTEXT;
  int status = check_sizes(request);
  if (status == STATUS_OK) status = check_arrays(request, memory);
  if (status != STATUS_OK) return status;
  if (atomic_flag_test_and_set_explicit(&context->busy, memory_order_acquire)) return STATUS_BUSY;
  status = compute(context, request, memory);
  atomic_flag_clear_explicit(&context->busy, memory_order_release);
  return status;
}
