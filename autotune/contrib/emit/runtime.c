/* What every emitted library does besides computing: it checks, opens weights, keeps contexts apart. The tables that
   it works on stand before it. */

struct shared_weights {
  pthread_mutex_t lock;
  int users;
  struct stat file;
  const unsigned char *bytes;
  void *panels[MOST_PANELS + 1];
};

struct CONTEXT {
  const struct variant *variant;
  struct team *team;
  void *arena;
  void *more;
  atomic_flag busy;
  struct memref memrefs[PROGRAMS][MOST_POINTERS];
  void *pointers[PROGRAMS][MOST_POINTERS];
};

static struct shared_weights shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- the processor --- */

static const struct variant *choose_variant(void) {
#ifdef __x86_64__
  for (int i = 0; i < VARIANTS; ++i)
    if (can_run(&variants[i])) return &variants[i];
#endif
  return NULL;
}

/* The status of the first feature that the least variant needs and this processor lacks. */
static int lacking(void) {
#ifdef __x86_64__
  const struct variant *least = &variants[VARIANTS - 1];
  for (int i = 0; i < least->features; ++i)
    if (!has_feature(&least->feature[i])) return STATUS_OF_FEATURE(i);
#endif
  return STATUS_PROCESSOR;
}

/* --- memory --- */

#define HUGE_PAGE ((size_t)2 << 20)

static void *new_bytes(size_t bytes) {
  void *memory = NULL;
  const size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
  if (posix_memalign(&memory, unit, (bytes + unit) / unit * unit) != 0) return NULL;
  if (bytes >= HUGE_PAGE) madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
  return memory;
}

static void describe(struct memref *memref, const struct shape *shape, void *memory) {
  int64_t stride = 1;
  memref->allocated = memref->aligned = memory;
  memref->offset = 0;
  for (int i = shape->rank - 1; i >= 0; --i) {
    memref->sizes[i] = shape->sizes[i];
    memref->sizes[shape->rank + i] = stride;
    stride *= shape->sizes[i];
  }
}

/* What MLIR calls to copy between arrays of any strides: rank, and a pointer to a memref. */
struct unranked {
  int64_t rank;
  struct memref *memref;
};

void memrefCopy(int64_t element, struct unranked *from, struct unranked *to) {
  const int64_t rank = from->rank, *sizes = from->memref->sizes;
  const int64_t *ours = from->memref->sizes + rank, *theirs = to->memref->sizes + rank;
  const char *source = (const char *)from->memref->aligned + from->memref->offset * element;
  char *target = (char *)to->memref->aligned + to->memref->offset * element;
  int64_t index[64] = {0};
  for (int64_t i = 0; i < rank; ++i)
    if (sizes[i] == 0) return;
  for (;;) {
    memcpy(target, source, (size_t)element);
    int64_t i = rank - 1;
    for (; i >= 0; --i) {
      source += ours[i] * element;
      target += theirs[i] * element;
      if (++index[i] < sizes[i]) break;
      source -= sizes[i] * ours[i] * element;
      target -= sizes[i] * theirs[i] * element;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

/* --- weights: one file, mapped once for all contexts of a process --- */

#if WEIGHTS
static int is_known(const struct stat *file) {
  return shared.users > 0 && shared.file.st_dev == file->st_dev && shared.file.st_ino == file->st_ino &&
         shared.file.st_size == file->st_size && shared.file.st_mtim.tv_sec == file->st_mtim.tv_sec &&
         shared.file.st_mtim.tv_nsec == file->st_mtim.tv_nsec;
}

static void drop_weights(void) {
  for (int i = 0; i < MOST_PANELS; ++i) {
    free(shared.panels[i]);
    shared.panels[i] = NULL;
  }
  if (shared.bytes != NULL) munmap((void *)shared.bytes, WEIGHTS_BYTES);
  shared.bytes = NULL;
}

static int store_in_panels(const struct variant *variant) {
  for (int i = 0; i < variant->panels; ++i) {
    const struct panel *panel = &variant->panel[i];
    shared.panels[i] = new_bytes((size_t)panel->bytes);
    if (shared.panels[i] == NULL) return STATUS_MEMORY;
    panel->store(shared.bytes + panel->weight, shared.panels[i]);
  }
  return STATUS_OK;
}

static int check_weights(const unsigned char *bytes) {
  unsigned char found[32];
  sha256(bytes, WEIGHTS_BYTES, found);
  return memcmp(found, weights_sha256, sizeof found) == 0 ? STATUS_OK : STATUS_WEIGHTS;
}

static int map_weights(int file, const struct stat *about, const struct variant *variant) {
  if (is_known(about)) return STATUS_OK;
  if (about->st_size != WEIGHTS_BYTES) return STATUS_WEIGHTS;
  void *bytes = mmap(NULL, WEIGHTS_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED) return STATUS_MEMORY;
  int status = check_weights(bytes);
  if (status != STATUS_OK || shared.users > 0) { /* the same numbers from another file: those that are there serve */
    munmap(bytes, WEIGHTS_BYTES);
    return status;
  }
  shared.bytes = bytes;
  shared.file = *about;
  status = store_in_panels(variant);
  if (status != STATUS_OK) drop_weights();
  return status;
}

static int take_weights(const char *path, const struct variant *variant) {
  struct stat about;
  if (path == NULL) return STATUS_NO_WEIGHTS;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is none, and is not waited for */
  if (file < 0) return STATUS_UNREADABLE;
  pthread_mutex_lock(&shared.lock);
  int status = fstat(file, &about) != 0 ? STATUS_UNREADABLE : map_weights(file, &about, variant);
  if (status == STATUS_OK) ++shared.users;
  pthread_mutex_unlock(&shared.lock);
  close(file);
  return status;
}

static void give_weights(void) {
  pthread_mutex_lock(&shared.lock);
  if (--shared.users == 0) drop_weights();
  pthread_mutex_unlock(&shared.lock);
}
#else
static int take_weights(const char *path, const struct variant *variant) {
  (void)variant;
  return path == NULL || *path == 0 ? STATUS_OK : STATUS_NEEDLESS;
}

static void give_weights(void) {}
#endif

/* --- what is called --- */

static void release(struct CONTEXT *context) {
  stop_team(context->team);
  free(context->arena);
  free(context->more);
  free(context);
}

static void prepare(struct CONTEXT *context, int number) {
  const struct program *program = &context->variant->program[number];
  struct memref *memref = context->memrefs[number];
  for (int i = 0; i < program->arrays; ++i) {
    const struct array *array = &program->array[i];
    describe(memref++, &array->shape, array->weight < 0 ? NULL : (void *)(shared.bytes + array->weight));
  }
  for (int i = 0; i < program->panels; ++i)
    describe(memref++, &context->variant->panel[program->panel[i]].shape, shared.panels[program->panel[i]]);
  for (int i = 0; i < MOST_POINTERS; ++i) context->pointers[number][i] = &context->memrefs[number][i];
}

int OPEN(struct CONTEXT **opened, const char *weights, int threads) {
  if (opened == NULL) return STATUS_CONTEXT;
  *opened = NULL;
  const struct variant *variant = choose_variant();
  if (variant == NULL) return lacking();
  if (threads < 0 || threads > variant->threads) return STATUS_THREADS;
  struct CONTEXT *context = calloc(1, sizeof *context);
  if (context == NULL) return STATUS_MEMORY;
  context->variant = variant;
  context->arena = new_bytes((size_t)variant->arena_bytes);
  context->more = new_bytes(MORE_BYTES);
  if (context->more != NULL) memset(context->more, 0, PLAN_BYTES);
  int status = context->arena == NULL || context->more == NULL
                   ? STATUS_MEMORY
                   : start_team(threads ? threads : variant->threads, &context->team);
  if (status == STATUS_OK) status = take_weights(weights, variant);
  if (status != STATUS_OK) {
    release(context);
    return status;
  }
  for (int i = 0; i < PROGRAMS; ++i) prepare(context, i);
  atomic_flag_clear(&context->busy);
  *opened = context;
  return STATUS_OK;
}

void CLOSE(struct CONTEXT *context) {
  if (context == NULL) return;
  release(context);
  give_weights();
}

/* Sizes of an array, given those of the open dimensions; its bytes. */
static int64_t sizes_of(const struct given *array, const int64_t *request, int64_t *sizes) {
  int64_t bytes = array->element;
  for (int i = 0; i < array->shape.rank; ++i) {
    sizes[i] = array->dims[i] < 0 ? array->shape.sizes[i] : request[array->dims[i]];
    bytes *= sizes[i];
  }
  return bytes;
}

#if RANGES
static int in_range(const struct given *array, const void *memory, int64_t bytes) {
  const int64_t count = bytes / array->element;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = array->element == 8   ? ((const int64_t *)memory)[i]
                          : array->element == 4 ? ((const int32_t *)memory)[i]
                                                : ((const int8_t *)memory)[i];
    if (value < array->least || value > array->most) return 0;
  }
  return 1;
}
#endif

static int overlaps(int mine, void *const *memory, const int64_t *bytes) {
  const char *start = memory[mine], *end = start + bytes[mine];
  for (int i = 0; i < GIVEN; ++i) {
    const char *other = memory[i];
    if (i != mine && start < other + bytes[i] && other < end) return 1;
  }
  return 0;
}

static int check_array(int i, void *const *memory, const int64_t *bytes) {
  if (memory[i] == NULL) return STATUS_OF_ARRAY(i, 0);
  if ((uintptr_t)memory[i] % (uintptr_t)given[i].element != 0) return STATUS_OF_ARRAY(i, 1);
  if (given[i].written && overlaps(i, memory, bytes)) return STATUS_OF_ARRAY(i, 2);
#if RANGES
  if (given[i].ranged && !in_range(&given[i], memory[i], bytes[i])) return STATUS_OF_ARRAY(i, 3);
#endif
  return STATUS_OK;
}

static int check_arrays(const int64_t *request, void *const *memory) {
  int64_t bytes[GIVEN], sizes[MOST_RANK];
  for (int i = 0; i < GIVEN; ++i) bytes[i] = sizes_of(&given[i], request, sizes);
  for (int i = 0; i < GIVEN; ++i) {
    const int status = check_array(i, memory, bytes);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

static void run_program(struct CONTEXT *context, int number, void *const *memory) {
  const struct program *program = &context->variant->program[number];
  struct memref *memrefs = context->memrefs[number];
  for (int i = 0; i < program->arrays; ++i)
    if (program->array[i].given >= 0) memrefs[i].allocated = memrefs[i].aligned = memory[program->array[i].given];
  enter_team(context->team);
  program->call(context->pointers[number], context->arena);
  enter_team(NULL);
}

const char *STATUS_TEXT(int status) {
  const int count = (int)(sizeof status_texts / sizeof *status_texts);
  return status >= 0 && status < count ? status_texts[status] : "a status must be one that a call gave";
}
