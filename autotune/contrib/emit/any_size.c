/* A library of any size within bounds: the cheapest compiled sizes compute a request, padded or in parts. What is padded
   or cut goes through memory of the context. */

static int check_sizes(const int64_t *request) {
  for (int d = 0; d < DIMS; ++d)
    if (request[d] < dims[d].low || request[d] > dims[d].high) return STATUS_OF_DIM(d);
  return STATUS_OK;
}

/* --- which sizes compute a request --- */

static int holds(const int64_t *size, const int64_t *request) {
  for (int d = 0; d < DIMS; ++d)
    if (d != SPLIT && size[d] != request[d] && !(dims[d].pad && size[d] > request[d])) return 0;
  return 1;
}

#if SPLIT < 0
static void make_plan(const struct variant *variant, struct plan *plan, const int64_t *request) {
  const struct served *served = variant->served;
  double least = INFINITY;
  for (int s = 0; s < variant->serving; ++s)
    if (holds(served[s].sizes, request) && served[s].seconds < least) {
      least = served[s].seconds;
      plan->part[0] = (struct part){s, 0, 0};
      plan->parts = 1;
    }
}
#else
static struct part last_part(const struct served *served, const struct plan *plan, int64_t done, double *seconds) {
  struct part best = {0, done, 0};
  *seconds = INFINITY;
  for (int i = 0; i < plan->held; ++i) {
    const int s = plan->holding[i];
    const int64_t width = served[s].sizes[SPLIT], count = width < done ? width : done;
    if (width > done && !dims[SPLIT].pad) continue;
    const double whole = served[s].seconds + CALL_SECONDS + plan->seconds[done - count];
    if (whole < *seconds) {
      *seconds = whole;
      best = (struct part){s, done - count, count};
    }
  }
  return best;
}

static void make_plan(const struct variant *variant, struct plan *plan, const int64_t *request) {
  const struct served *served = variant->served;
  plan->held = 0;
  for (int s = 0; s < variant->serving; ++s)
    if (holds(served[s].sizes, request)) plan->holding[plan->held++] = s;
  plan->seconds[0] = 0;
  for (int64_t done = 1; done <= request[SPLIT]; ++done)
    plan->last[done] = last_part(served, plan, done, &plan->seconds[done]);
  if (plan->seconds[request[SPLIT]] == INFINITY) return;
  for (int64_t left = request[SPLIT]; left > 0; left = plan->last[left].start) plan->part[plan->parts++] = plan->last[left];
}
#endif

static int plan_request(const struct variant *variant, struct plan *plan, const int64_t *request) {
  if (plan->parts == 0 || memcmp(plan->request, request, sizeof plan->request) != 0) {
    plan->parts = 0;
    make_plan(variant, plan, request);
    memcpy(plan->request, request, sizeof plan->request);
  }
  return plan->parts > 0 ? STATUS_OK : STATUS_SIZE;
}

/* --- parts of arrays --- */

/* A part of an array: its sizes, those of the array, and those of the array that a program takes. */
struct block {
  int64_t mine[MOST_RANK], all[MOST_RANK], whole[MOST_RANK], bytes;
  char *start;
};

static void find_block(struct block *block, int i, const int64_t *request, const struct part *part, int program,
                       char *memory) {
  int64_t mine[DIMS], stride = given[i].element, first = 0;
  memcpy(mine, request, sizeof mine);
  if (SPLIT >= 0) mine[SPLIT < 0 ? 0 : SPLIT] = part->count;
  sizes_of(&given[i], request, block->all);
  sizes_of(&given[i], mine, block->mine);
  block->bytes = sizes_of(&given[i], compiled[program], block->whole);
  for (int axis = given[i].shape.rank - 1; axis >= 0; --axis) {
    if (SPLIT >= 0 && given[i].dims[axis] == SPLIT) first = part->start * stride;
    stride *= block->all[axis];
  }
  block->start = memory + first;
}

/* Whether a program may work on a part where it lies. */
static int lies_as_taken(const struct block *block, int rank) {
  int64_t rows = 1;
  for (int axis = 0; axis < rank; ++axis) {
    if (block->mine[axis] != block->whole[axis]) return 0;
    if (block->mine[axis] != block->all[axis] && rows > 1) return 0;
    rows *= block->mine[axis];
  }
  return 1;
}

static void copy_block(const struct given *array, const int64_t *sizes, char *to, const int64_t *theirs,
                       const char *from, const int64_t *ours) {
  int64_t bytes = array->element, index[MOST_RANK] = {0}, steps[MOST_RANK], paces[MOST_RANK];
  int64_t step = array->element, pace = array->element;
  int outer = array->shape.rank, is_whole = 1;
  for (int axis = array->shape.rank - 1; axis >= 0; --axis) {
    steps[axis] = step;
    paces[axis] = pace;
    step *= theirs[axis];
    pace *= ours[axis];
    if (is_whole) {
      bytes *= sizes[axis];
      outer = axis;
      is_whole = sizes[axis] == theirs[axis] && sizes[axis] == ours[axis];
    }
  }
  for (;;) {
    int axis = outer - 1;
    memcpy(to, from, (size_t)bytes);
    for (; axis >= 0; --axis) {
      to += steps[axis];
      from += paces[axis];
      if (++index[axis] < sizes[axis]) break;
      to -= sizes[axis] * steps[axis];
      from -= sizes[axis] * paces[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

/* Whether each line of a part along an axis holds something else than zeros. */
static int has_full_lines(const struct given *array, const struct block *block, int along) {
  int64_t strides[MOST_RANK], index[MOST_RANK] = {0}, stride = array->element;
  const char *line = block->start;
  for (int axis = array->shape.rank - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= block->all[axis];
  }
  for (;;) {
    int axis = array->shape.rank - 1, is_full = 0;
    for (int64_t i = 0; i < block->mine[along]; ++i)
      for (int byte = 0; byte < array->element; ++byte) is_full |= line[i * strides[along] + byte] != 0;
    if (!is_full) return 0;
    for (; axis >= 0; --axis) {
      if (axis == along) continue;
      line += strides[axis];
      if (++index[axis] < block->mine[axis]) break;
      line -= block->mine[axis] * strides[axis];
      index[axis] = 0;
    }
    if (axis < 0) return 1;
  }
}

/* --- a call --- */

static int check_masks(const struct variant *variant, const int64_t *request, const struct part *part,
                       void *const *memory) {
  const struct served *size = &variant->served[part->size];
  for (int i = 0; i < GIVEN; ++i)
    for (int axis = 0; axis < given[i].shape.rank; ++axis) {
      const int d = given[i].dims[axis];
      if (d < 0 || !masks[i][d]) continue;
      const int64_t mine = d == SPLIT ? part->count : request[d];
      struct block block;
      find_block(&block, i, request, part, size->program, memory[i]);
      if (mine != size->sizes[d] && !has_full_lines(&given[i], &block, axis)) return STATUS_OF_MASK(i);
    }
  return STATUS_OK;
}

static void compute_part(struct CONTEXT *context, const int64_t *request, const struct part *part, void *const *memory) {
  const struct served *size = &context->variant->served[part->size];
  const struct program *program = &context->variant->program[size->program];
  struct block blocks[GIVEN];
  void *taken[GIVEN];
  for (int i = 0; i < GIVEN; ++i) {
    struct block *block = &blocks[i];
    find_block(block, i, request, part, size->program, memory[i]);
    if (lies_as_taken(block, given[i].shape.rank)) {
      taken[i] = block->start;
      continue;
    }
    taken[i] = (char *)context->more + PLAN_BYTES + padded_at[i];
    if (given[i].written) continue;
    memset(taken[i], 0, (size_t)block->bytes);
    copy_block(&given[i], block->mine, taken[i], block->whole, block->start, block->all);
  }
  if (program->set != NULL) program->set(size->extent);
  run_program(context, size->program, taken);
  for (int i = 0; i < GIVEN; ++i)
    if (given[i].written && taken[i] != blocks[i].start)
      copy_block(&given[i], blocks[i].mine, blocks[i].start, blocks[i].all, taken[i], blocks[i].whole);
}

static int compute(struct CONTEXT *context, const int64_t *request, void *const *memory) {
  const struct variant *variant = context->variant;
  struct plan *plan = context->more;
  int status = plan_request(variant, plan, request);
  for (int i = 0; i < plan->parts && status == STATUS_OK; ++i)
    status = check_masks(variant, request, &plan->part[i], memory);
  for (int i = 0; i < plan->parts && status == STATUS_OK; ++i) compute_part(context, request, &plan->part[i], memory);
  return status;
}
