/* A library of one size: a call runs its program. */

static int check_sizes(const int64_t *request) {
  (void)request;
  return STATUS_OK;
}

static int compute(struct CONTEXT *context, const int64_t *request, void *const *memory) {
  (void)request;
  run_program(context, 0, memory);
  return STATUS_OK;
}
