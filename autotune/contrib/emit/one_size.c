/* A library of one size: a call runs its program. */

static int run_on(struct CONTEXT *context, const int64_t *request, void *const *memory) {
  if (context == NULL) return STATUS_CONTEXT;
  const int status = check_arrays(request, memory);
  if (status != STATUS_OK) return status;
  if (atomic_flag_test_and_set_explicit(&context->busy, memory_order_acquire)) return STATUS_BUSY;
  run_program(context, 0, memory);
  atomic_flag_clear_explicit(&context->busy, memory_order_release);
  return STATUS_OK;
}
