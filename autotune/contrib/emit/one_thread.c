/* Programs without parallel loops: no team. */

static int start_team(int threads, struct team **team) {
  (void)threads;
  *team = NULL;
  return STATUS_OK;
}

static void stop_team(struct team *team) { (void)team; }

static void enter_team(struct team *team) { (void)team; }
