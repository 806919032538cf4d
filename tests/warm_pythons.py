"""Processes for tests that start in milliseconds: forked from one that has everything loaded, not imported again.

A keeper of the tool's own is a new Python, and imports for a second, as a converter of models does. That its memory
lies elsewhere each time matters to times, and to no test. Tests of keepers, and of what ends them, have the tool's own.
"""

import atexit
import gc
import os
import pickle
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path

from autotune.core.host.readable import readable
from autotune.worker.isolation import keeper  # and no more: what has MLIR of ours loaded cannot be a converter

PLACE = "AUTOTUNE_TESTS_KEEPERS"  # environment variable: the socket at which programs that tests start ask for one
CONVERTERS = "AUTOTUNE_TESTS_CONVERTERS"  # likewise, for a converter of programs of PyTorch
PAGE_PROGRAMS = Path(__file__).parent / "page_programs"  # modules of theirs
MOST_BYTES = 1 << 17  # of a request: a path, a folder and an environment
COLD = keeper.start_keeping
KEEPER = ("autotune.worker.bench.ready_answers",)
READER = (  # what processes that read payloads, or do other work of features, import when they are asked to
    "autotune.compiler.guard",
    "autotune.compiler.lowering.emit",
    "autotune.compiler.tasks.partition",
    "autotune.compiler.tasks.payload_file",
    "autotune.compiler.tasks.payload_folder",
    "autotune.contrib.analysis.reading",
    "autotune.contrib.debug.record",
    "autotune.contrib.explain.explanation",
    "autotune.contrib.gpu.stage",
    "autotune.contrib.gpu.whole",
    "autotune.contrib.rules.apply",
    "autotune.contrib.rules.files",
    "autotune.contrib.rules.plugin",
    "autotune.contrib.selftest.stress",
    "autotune.contrib.sizes.making",
    "autotune.contrib.targets.images",
    "autotune.worker.bench.programs",
    "autotune.worker.limits_cache",
    "autotune.worker.probe",
    "scipy.special",
)
RUN = (  # modules that are run as programs: what they import is loaded, and they themselves are not
    "autotune.contrib.quantised.gguf_convert",
    "payload.importers.onnx_convert",
    "payload.importers.pt2_convert",
)
CONVERTER = (
    "autotune.contrib.quantised.gguf_convert",
    "onnx.reference.ops._op_list",
    "payload.importers.onnx_convert",
    "payload.importers.onnx_oracle",
    "torch_mlir.dialects.arith",
    "torch_mlir.dialects.builtin",
    "torch_mlir.dialects.torch",
    "torch_mlir.extras.onnx_importer",
    "torch_mlir.passmanager",
)
PROGRAM_CONVERTER = (  # of programs of PyTorch, whose import takes three seconds
    "payload.importers.pt2_convert",
    "torch._functorch.aot_autograd",  # what torch.export imports when it is used, for three seconds more
    "torch._inductor.compiler_bisector",
    "torch.export._trace",
    "torch.export.pt2_archive",
    "torch_mlir.dialects.arith",
    "torch_mlir.dialects.builtin",
    "torch_mlir.dialects.torch",
    "torch_mlir.extras.fx_decomp_util",
    "torch_mlir.extras.fx_importer",
    "torch_mlir.passmanager",
)

COMMAND = (
    "autotune.bundles.emit",
    "autotune.bundles.replay",
    "autotune.bundles.retune",
    "autotune.cli.verbs",
    "autotune.cli.inspect_bundle",
    "autotune.cli.inspect_store",
    "autotune.contrib.affine.family",
    "autotune.contrib.analysis.text",
    "autotune.contrib.cost_model.learnt",
    "autotune.contrib.explain.explanation",
    "autotune.contrib.postgres.overview",
    "autotune.contrib.quantised.rounded_family",
    "autotune.contrib.quantised.widened_family",
    "autotune.contrib.rules.choose",
    "autotune.contrib.rules.report",
    "autotune.contrib.spaces.measure",
    "autotune.core.progress",
    "autotune.reports.front",
    "autotune.reports.page",
    "autotune.reports.pictures.gallery",
    "autotune.reports.show",
    "autotune.reports.task_lines",
    "autotune.reports.versus",
    "autotune.tuning.front",
    "autotune.tuning.tune",
    "matplotlib.pyplot",
    "payload.gpt",
    "payload.kernels",
    "py_landlock",
    "pyseccomp",
    "rich.progress",
    "schedules.baseline",
    "schedules.gather",
    "schedules.growing",
    "schedules.matmul",
    "schedules.narrow",
    "schedules.sliding_window",
    "schedules.stencil",
    "schedules.transpose",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.special",
)
STUB = """#!{python} -IS
import os, pickle, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as answers:
    answers.connect({place!r})
    request = pickle.dumps((None, os.getcwd(), os.sched_getaffinity(0), dict(os.environ), "run_command", sys.argv[1:]))
    socket.send_fds(answers, [request], [0, 1, 2])
    answers.recv(32)
    sys.exit(int(answers.recv(32) or -1))
"""


class WarmPython:
    """A process that others are forked from, for as long as this is open; it has these modules loaded."""

    def __init__(self, preload):
        self._folder = Path(tempfile.mkdtemp(prefix="warm-"))
        self.place = str(self._folder / "socket")
        with closing(new_socket()) as listening:
            listening.bind(self.place)
            listening.listen(64)
            what = f"from {__name__} import fork_for_all; fork_for_all({listening.fileno()}, {tuple(preload)})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {what}"],
                stdin=subprocess.PIPE,
                pass_fds=[listening.fileno()],
            )

    def start_keeping(self, handle, preload):
        """Stand in for `autotune.worker.isolation.keeper.start_keeping`."""
        return start_keeping(self.place, handle, preload)

    def run_module(self, module, arguments, said, seconds):
        """Stand in for `payload.importers.converter.run_module`."""
        return run_module_from(self.place, module, arguments, said, seconds)

    def run_program(self, file, environment, said):
        """Run a program in its folder, as a new Python would; its exit code."""
        handles = [0, said.fileno(), said.fileno()]
        with asked(
            self.place, "run_program", [str(file)], handles, folder=file.parent, environment=environment
        ) as answers:
            answers.recv(MOST_BYTES)
            return int(answers.recv(MOST_BYTES) or -1)

    def write_command(self, file):
        """Write a program that does what `autotune` does, here."""
        file.write_text(STUB.format(python=sys.executable, place=self.place))
        file.chmod(0o755)

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        shutil.rmtree(self._folder)


def new_socket(handle=None):
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=handle)


def asked(place, function, arguments, handles, *, folder=None, environment=None):
    """Ask for a process that calls a function, with the path and cores of this one, its folder and its environment."""
    answers = new_socket()
    answers.connect(place)
    where = str(folder or os.getcwd()), os.sched_getaffinity(0), dict(environment or os.environ)
    request = pickle.dumps((sys.path, *where, function, arguments))
    socket.send_fds(answers, [request], handles)
    return answers


def run_module_from(place, module, arguments, said, _):
    """Run a module as `payload.importers.converter.run_module` does; its exit code."""
    with asked(place, "run_module", [module, *arguments], [0, said.fileno(), said.fileno()]) as answers:
        answers.recv(MOST_BYTES)  # its number
        return int(answers.recv(MOST_BYTES) or -1)


def start_keeping(place, handle, preload):
    """A keeper as the tool starts it."""
    if tuple(preload) != KEEPER:
        return COLD(handle, preload)
    with asked(place, "keep", [], [0, 1, 2, handle]) as answers:
        return WarmProcess(int(answers.recv(MOST_BYTES)))


class WarmProcess:
    """A process that is somebody else's child, with what `subprocess.Popen` has of it."""

    def __init__(self, pid):
        self.pid = pid

    def wait(self, timeout=3600.0):
        """Wait until it is gone, its number too."""
        until = time.monotonic() + timeout
        with suppress(ProcessLookupError):
            gone = os.pidfd_open(self.pid)
            try:
                ended = select.select([gone], [], [], timeout)[0]
            finally:
                os.close(gone)
            if not ended:
                raise subprocess.TimeoutExpired("keeper", timeout)
            while time.monotonic() < until:
                os.kill(self.pid, 0)
                time.sleep(1e-4)

    def kill(self):
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def fork_for_all(handle, preload):
    """Fork whenever asked, until the tests are gone."""
    listening = new_socket(handle)
    for module in preload:
        import_module(module)
        if module in RUN:
            del sys.modules[module]
    readable()  # each keeper would find it anew
    gc.freeze()  # else each fork's search for garbage copies all of that
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, wait_for_all)
    while sys.stdin not in (ready := select.select([sys.stdin, listening], [], [])[0]):
        if ready:
            with closing(listening.accept()[0]) as answers:
                answers.send(str(fork_for(answers, listening)).encode())


def fork_for(answers, listening):
    """Fork a process as it is asked for; its number."""
    request, handles, _, _ = socket.recv_fds(answers, MOST_BYTES, 4)
    pid = os.fork()
    if pid == 0:
        listening.close()
        os._exit(be_new(answers, request, handles))
    for handle in handles:
        os.close(handle)
    return pid


def wait_for_all(*_):
    """Wait for every process that has ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def be_new(answers, request, handles):
    """Do what was asked for, as if started anew by whoever asked; an exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path, folder, cores, environment, function, arguments = pickle.loads(request)
    sys.path[:] = path or sys.path
    os.chdir(folder)
    os.sched_setaffinity(0, cores)
    os.environ.clear()
    os.environ.update(environment)
    for stream in range(3):
        os.dup2(handles[stream], stream)
        os.close(handles[stream])
    return globals()[function](answers, *handles[3:], *arguments)


def keep(answers, handle):
    answers.close()
    os.setsid()
    keeper.keep(handle)
    return 0


def run_module(answers, module, *arguments):
    """Run a module as a program; also tells its exit code."""
    sys.argv = ["", *arguments]
    return run(answers, partial(runpy.run_module, module, run_name="__main__", alter_sys=True))


def stands_beside_tests(kept, now):
    """Stand in for `autotune.worker.limits_cache.is_valid`: only a core that is faster now is measured again."""
    from autotune.core.winner_time import ROOF_ERROR

    return isinstance(now, float) and now <= ROOF_ERROR * kept


def start_keepers_fast():
    """Let keepers be forked, and roofs stand, as in tests."""
    from autotune.worker import limits_cache

    limits_cache.is_valid = stands_beside_tests
    keeper.start_keeping = partial(start_keeping, os.environ[PLACE])


def run_command(answers, *arguments):
    """Run `autotune`; also tells its exit code."""
    from autotune import cli

    start_keepers_fast()
    sys.argv = ["autotune", *arguments]
    return run(answers, cli.main)


def run_program(answers, file):
    """Run a program of Python; also tells its exit code."""
    start_keepers_fast()
    sys.argv, sys.path[:] = [file], [str(Path(file).parent), str(PAGE_PROGRAMS), *sys.path]
    return run(answers, partial(runpy.run_path, file, run_name="__main__"))


def run(answers, program):
    """Run a program to its end; also tells its exit code."""
    code = 1
    try:
        program()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    answers.send(str(code).encode())
    return code
