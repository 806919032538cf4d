/* An operator of ONNX Runtime, of which some calls and one structure are declared here as its C interface has them
   (onnxruntime_c_api.h): the interface only ever grows at its end. From version 1.16 on. */

#include <dlfcn.h>
#include <stdio.h>

#define ORT_VERSION 16 /* the oldest that has both calls below that give a status */
enum { ORT_FAIL = 1 };
enum { /* positions in the table of calls, all of its first version */
  ORT_CREATE_STATUS = 0,
  ORT_CREATE_DOMAIN = 26,
  ORT_DOMAIN_ADD = 27,
  ORT_ADD_DOMAIN = 28,
  ORT_TENSOR_DATA = 51,
  ORT_DIMENSION_COUNT = 61,
  ORT_DIMENSIONS = 62,
  ORT_SHAPE = 65,
  ORT_CONTEXT_INPUT = 90,
  ORT_CONTEXT_OUTPUT = 91,
  ORT_RELEASE_SHAPE = 99,
};

typedef void ort_status;
typedef void *const ort_api; /* the table of calls */

struct ort_base {
  ort_api *(*get_api)(uint32_t version);
  const char *(*version)(void);
};

struct ort_op {
  uint32_t version;
  void *(*create)(const struct ort_op *, ort_api *, const void *);
  const char *(*name)(const struct ort_op *);
  const char *(*provider)(const struct ort_op *);
  int (*input_type)(const struct ort_op *, size_t);
  size_t (*inputs)(const struct ort_op *);
  int (*output_type)(const struct ort_op *, size_t);
  size_t (*outputs)(const struct ort_op *);
  void (*compute)(void *, void *);
  void (*destroy)(void *);
  int (*input_kind)(const struct ort_op *, size_t);
  int (*output_kind)(const struct ort_op *, size_t);
  int (*input_memory)(const struct ort_op *, size_t);
  int (*least_inputs)(const struct ort_op *);
  int (*inputs_alike)(const struct ort_op *);
  int (*least_outputs)(const struct ort_op *);
  int (*outputs_alike)(const struct ort_op *);
  ort_status *(*create_or_say)(const struct ort_op *, ort_api *, const void *, void **);
  ort_status *(*compute_or_say)(void *, void *);
};

/* A node: contexts that no call uses now, behind a lock; each more call at once opens one more. */
struct node {
  ort_api *api;
  pthread_mutex_t lock;
  struct CONTEXT *idle[64];
  int count;
};

static ort_status *say(ort_api *api, const char *sentence) {
  return ((ort_status * (*)(int, const char *)) api[ORT_CREATE_STATUS])(ORT_FAIL, sentence);
}

/* The weights lie beside the library. */
static const char *weights_beside(char *path, size_t size) {
  Dl_info about;
  if (!WEIGHTS || !dladdr((void *)weights_beside, &about)) return NULL;
  const char *slash = strrchr(about.dli_fname, '/');
  const int folder = slash ? (int)(slash - about.dli_fname) : 0;
  snprintf(path, size, "%.*s%s%s", folder, about.dli_fname, slash ? "/" : "", WEIGHTS_NAME);
  return path;
}

static int open_here(struct CONTEXT **context) {
  char path[4096];
  return OPEN(context, weights_beside(path, sizeof path), 0);
}

static struct CONTEXT *take_idle(struct node *node) {
  struct CONTEXT *context = NULL;
  pthread_mutex_lock(&node->lock);
  if (node->count > 0) context = node->idle[--node->count];
  pthread_mutex_unlock(&node->lock);
  return context;
}

static void give_idle(struct node *node, struct CONTEXT *context) {
  const int room = (int)(sizeof node->idle / sizeof *node->idle);
  pthread_mutex_lock(&node->lock);
  if (node->count < room) {
    node->idle[node->count++] = context;
    context = NULL;
  }
  pthread_mutex_unlock(&node->lock);
  CLOSE(context);
}

static ort_status *create_node(const struct ort_op *op, ort_api *api, const void *info, void **created) {
  struct CONTEXT *context;
  (void)op, (void)info;
  const int status = open_here(&context);
  if (status != STATUS_OK) return say(api, STATUS_TEXT(status));
  struct node *node = calloc(1, sizeof *node);
  if (node == NULL) {
    CLOSE(context);
    return say(api, STATUS_TEXT(STATUS_MEMORY));
  }
  node->api = api;
  pthread_mutex_init(&node->lock, NULL);
  node->idle[node->count++] = context;
  *created = node;
  return NULL;
}

static void destroy_node(void *given) {
  struct node *node = given;
  while (node->count > 0) CLOSE(node->idle[--node->count]);
  pthread_mutex_destroy(&node->lock);
  free(node);
}

static ort_status *refuse_shape(const struct node *node, const struct port *port) {
  char text[256];
  snprintf(text, sizeof text, "%s must be of a shape that the operator takes, it is not", port->name);
  return say(node->api, text);
}

/* Sizes of an input: open ones are noted, others must be as they are known. */
static ort_status *read_sizes(const struct node *node, const struct port *port, void *value, int64_t *request) {
  const struct given *array = &given[port->array];
  ort_api *api = node->api;
  void *shape = NULL;
  size_t rank = 0;
  int64_t sizes[MOST_RANK];
  ort_status *wrong = ((ort_status * (*)(void *, void **)) api[ORT_SHAPE])(value, &shape);
  if (wrong != NULL) return wrong;
  wrong = ((ort_status * (*)(void *, size_t *)) api[ORT_DIMENSION_COUNT])(shape, &rank);
  const int is_right = wrong == NULL && rank == (size_t)array->shape.rank;
  if (is_right) wrong = ((ort_status * (*)(void *, int64_t *, size_t)) api[ORT_DIMENSIONS])(shape, sizes, rank);
  ((void (*)(void *))api[ORT_RELEASE_SHAPE])(shape);
  if (wrong != NULL) return wrong;
  if (!is_right) return refuse_shape(node, port);
  for (size_t i = 0; i < rank; ++i) {
    int64_t *known = &request[array->dims[i] < 0 ? DIMS : array->dims[i]];
    if (array->dims[i] < 0) *known = array->shape.sizes[i];
    if (*known < 0) *known = sizes[i];
    if (*known != sizes[i]) return refuse_shape(node, port);
  }
  return NULL;
}

/* Memory of an input or output of the node. Inputs come first: they tell open sizes. */
static ort_status *point_to(const struct node *node, void *context, const struct port *port, int64_t *request,
                            void **memory) {
  ort_api *api = node->api;
  void *value = NULL;
  int64_t sizes[MOST_RANK];
  ort_status *wrong;
  if (port->is_output) {
    sizes_of(&given[port->array], request, sizes);
    wrong = ((ort_status * (*)(void *, size_t, const int64_t *, size_t, void **)) api[ORT_CONTEXT_OUTPUT])(
        context, port->index, sizes, (size_t)given[port->array].shape.rank, &value);
  } else {
    wrong = ((ort_status * (*)(void *, size_t, void **)) api[ORT_CONTEXT_INPUT])(context, port->index, &value);
    if (wrong == NULL) wrong = read_sizes(node, port, value, request);
  }
  if (wrong != NULL) return wrong;
  return ((ort_status * (*)(void *, void **)) api[ORT_TENSOR_DATA])(value, memory);
}

static ort_status *compute_node(void *self, void *ort) {
  struct node *node = self;
  void *memory[GIVEN] = {NULL}, *before;
  int64_t request[DIMS + 1], sizes[MOST_RANK];
  for (int d = 0; d <= DIMS; ++d) request[d] = -1;
  for (int i = 0; i < PORTS; ++i) { /* a state is an input and an output: what was given is copied to be written */
    const struct port *port = &ports[i];
    before = memory[port->array];
    ort_status *wrong = point_to(node, ort, port, request, &memory[port->array]);
    if (wrong != NULL) return wrong;
    if (before != NULL) memcpy(memory[port->array], before, (size_t)sizes_of(&given[port->array], request, sizes));
  }
  struct CONTEXT *context = take_idle(node);
  int status = context == NULL ? open_here(&context) : STATUS_OK;
  if (status == STATUS_OK) status = run_on(context, request, memory);
  if (context != NULL) give_idle(node, context);
  return status == STATUS_OK ? NULL : say(node->api, STATUS_TEXT(status));
}

static const struct port *port_of(int is_output, size_t index) {
  for (int i = 0; i < PORTS; ++i)
    if (ports[i].is_output == is_output && ports[i].index == index) return &ports[i];
  return &ports[0];
}

static size_t count_ports(int is_output) {
  size_t count = 0;
  for (int i = 0; i < PORTS; ++i) count += ports[i].is_output == is_output;
  return count;
}

static const char *op_name(const struct ort_op *op) { return (void)op, OPERATOR; }
static const char *op_provider(const struct ort_op *op) { return (void)op, NULL; }
static int op_input(const struct ort_op *op, size_t index) { return (void)op, port_of(0, index)->type; }
static int op_output(const struct ort_op *op, size_t index) { return (void)op, port_of(1, index)->type; }
static size_t op_inputs(const struct ort_op *op) { return (void)op, count_ports(0); }
static size_t op_outputs(const struct ort_op *op) { return (void)op, count_ports(1); }
static int op_zero(const struct ort_op *op, size_t index) { return (void)op, (void)index, 0; }
static int op_one(const struct ort_op *op) { return (void)op, 1; }

static const struct ort_op op = {
    .version = ORT_VERSION,
    .name = op_name,
    .provider = op_provider,
    .input_type = op_input,
    .inputs = op_inputs,
    .output_type = op_output,
    .outputs = op_outputs,
    .destroy = destroy_node,
    .input_kind = op_zero,
    .output_kind = op_zero,
    .input_memory = op_zero,
    .least_inputs = op_one,
    .inputs_alike = op_one,
    .least_outputs = op_one,
    .outputs_alike = op_one,
    .create_or_say = create_node,
    .compute_or_say = compute_node,
};

/* What ONNX Runtime calls of a library of operators. */
ort_status *RegisterCustomOps(void *options, const struct ort_base *base) {
  ort_api *api = base->get_api(ORT_VERSION);
  void *domain;
  if (api == NULL) return say(base->get_api(1), "ONNX Runtime must be of version 1.16 or later, it is older");
  ort_status *wrong = ((ort_status * (*)(const char *, void **)) api[ORT_CREATE_DOMAIN])(DOMAIN_NAME, &domain);
  if (wrong == NULL) wrong = ((ort_status * (*)(void *, const struct ort_op *)) api[ORT_DOMAIN_ADD])(domain, &op);
  if (wrong == NULL) wrong = ((ort_status * (*)(void *, void *)) api[ORT_ADD_DOMAIN])(options, domain);
  return wrong;
}
