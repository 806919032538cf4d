/* Parallel loops: a team of threads for each context, and the calls of an OpenMP runtime that MLIR's loops make
   (https://openmp.llvm.org/doxygen). They are of this library alone: another OpenMP runtime of the process is not met. */

#include <sched.h>

#define SPINS 20000 /* some 50 us, after which a thread sleeps */

typedef void (*microtask)(int32_t *, int32_t *, ...);

struct team {
  int size, started;
  microtask task;
  void *given;
  atomic_int round, arrived, barrier, single, stopping;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  struct member {
    struct team *team;
    pthread_t thread;
    int number;
  } members[MOST_THREADS];
};

static _Thread_local struct {
  struct team *team;
  int number, singles;
} me __attribute__((tls_model("initial-exec")));

static void pause_here(int spin) {
  if (spin > SPINS)
    sched_yield();
#ifdef __x86_64__
  else
    __builtin_ia32_pause();
#endif
}

static void wait_for_all(struct team *team) {
  const int round = atomic_load(&team->barrier);
  if (atomic_fetch_add(&team->arrived, 1) + 1 == team->size) {
    atomic_store(&team->arrived, 0);
    atomic_fetch_add(&team->barrier, 1);
    return;
  }
  for (int spin = 0; atomic_load(&team->barrier) == round; ++spin) pause_here(spin);
}

static void take_part(struct team *team, int number) {
  int32_t global = number, bound = 0;
  me.team = team;
  me.number = number;
  me.singles = 0;
  team->task(&global, &bound, team->given);
  wait_for_all(team);
}

static int next_round(struct team *team, int seen) {
  for (int spin = 0; spin < SPINS; ++spin) {
    if (atomic_load(&team->round) != seen || atomic_load(&team->stopping)) return !atomic_load(&team->stopping);
    pause_here(0);
  }
  pthread_mutex_lock(&team->lock);
  while (atomic_load(&team->round) == seen && !atomic_load(&team->stopping))
    pthread_cond_wait(&team->wake, &team->lock);
  pthread_mutex_unlock(&team->lock);
  return !atomic_load(&team->stopping);
}

static void *work(void *given) {
  struct member *member = given;
  for (int round = 0; next_round(member->team, round); ++round) take_part(member->team, member->number);
  return NULL;
}

static void wake_all(struct team *team, atomic_int *sign) {
  pthread_mutex_lock(&team->lock);
  atomic_fetch_add(sign, 1);
  pthread_cond_broadcast(&team->wake);
  pthread_mutex_unlock(&team->lock);
}

static void stop_team(struct team *team) {
  if (team == NULL) return;
  wake_all(team, &team->stopping);
  for (int i = 1; i < team->started; ++i) pthread_join(team->members[i].thread, NULL);
  pthread_cond_destroy(&team->wake);
  pthread_mutex_destroy(&team->lock);
  free(team);
}

static int start_team(int threads, struct team **started) {
  struct team *team = *started = calloc(1, sizeof *team);
  if (team == NULL) return STATUS_MEMORY;
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->wake, NULL);
  team->size = threads;
  for (team->started = 1; team->started < threads; ++team->started) {
    struct member *member = &team->members[team->started];
    member->team = team;
    member->number = team->started;
    if (pthread_create(&member->thread, NULL, work, member) != 0) return STATUS_MEMORY;
  }
  return STATUS_OK;
}

static void enter_team(struct team *team) {
  me.team = team;
  me.number = 0;
}

int32_t __kmpc_bound_thread_num(void *where) {
  (void)where;
  return me.number;
}

int32_t __kmpc_global_thread_num(void *where) {
  (void)where;
  return me.number;
}

void __kmpc_push_num_threads(void *where, int32_t thread, int32_t threads) {
  (void)where, (void)thread, (void)threads; /* a team is of as many as it was opened with */
}

void __kmpc_fork_call(void *where, int32_t count, microtask task, ...) {
  struct team *team = me.team;
  va_list arguments;
  (void)where;
  va_start(arguments, task);
  team->given = count > 0 ? va_arg(arguments, void *) : NULL; /* MLIR gives one structure, or nothing */
  va_end(arguments);
  team->task = task;
  atomic_store(&team->single, 0);
  if (team->size > 1) wake_all(team, &team->round);
  take_part(team, 0);
}

void __kmpc_barrier(void *where, int32_t thread) {
  (void)where, (void)thread;
  wait_for_all(me.team);
}

int32_t __kmpc_single(void *where, int32_t thread) {
  int mine = me.singles++;
  (void)where, (void)thread;
  return atomic_compare_exchange_strong(&me.team->single, &mine, mine + 1);
}

void __kmpc_end_single(void *where, int32_t thread) { (void)where, (void)thread; }

void __kmpc_for_static_fini(void *where, int32_t thread) { (void)where, (void)thread; }

/* Each thread a block of neighbouring iterations, the first ones one more where they do not divide. */
#define STATIC_LOOP(suffix, type)                                                                                     \
  void __kmpc_for_static_init_##suffix(void *where, int32_t thread, int32_t schedule, int32_t *last, type *lower,    \
                                       type *upper, type *stride, type step, type chunk) {                           \
    const type size = (type)me.team->size, number = (type)me.number;                                                 \
    const type count = (*upper - *lower) / step + 1, block = count / size, more = count % size;                      \
    (void)where, (void)thread, (void)schedule, (void)chunk;                                                          \
    *last = number == (block > 0 ? size : more) - 1;                                                                 \
    *stride = count * step;                                                                                           \
    *lower += (number * block + (number < more ? number : more)) * step;                                             \
    *upper = *lower + (block + (number < more)) * step - step;                                                       \
  }
STATIC_LOOP(4, int32_t)
STATIC_LOOP(4u, uint32_t)
STATIC_LOOP(8, int64_t)
STATIC_LOOP(8u, uint64_t)
