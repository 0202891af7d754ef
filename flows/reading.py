"""Files that other people wrote are parsed in a process of their own, with a limit to its memory.

A parser of the libraries may end its process, at one flipped bit, or take all memory, for a file of
some kB. So the process that talks to people and holds a reservation parses none: a child does. The
child tells which files it opens. If it dies, or lacks memory, its parent says at which file.

Nothing that a child says holds a private value: refusals explain themselves, and of any other error
only its type is told. Linux bounds the memory of the child; on other systems nothing does
(docs/operations.md). The child ends with its parent, even if the parent is killed: nobody would
delete exact counts that it wrote later.

In a run (`Reducer`) only the child holds rows in memory. Its parent, which talks to people, ledger
and server, gets an empty answer or an error text that is safe to show. The text of an unexpected
error may quote a row, so it goes to a file in the confidential folder. The child starts before
there is a job, and loads what every job needs while its parent checks the configuration. Beam takes
seconds more, so the child loads it only for a job that needs it.
"""

from __future__ import annotations

import errno
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hushrank.flows.errors import ConfigError, HushrankError, is_of_memory
from hushrank.pipelines.engine.runner import DEFAULT_MEMORY, hard_limit
from hushrank.transforms import system
from hushrank.transforms.engine import in_process

if TYPE_CHECKING:
    from hushrank.pipelines.reduce.reduce import Job


T = TypeVar("T")

READING = "hushrank.transforms.storage.read"  # module that loads the libraries that parse files
# Arrow's allocator reserves 1 GiB at once; it then counts as taken only what it uses.
_LAZY_ALLOCATOR = ("MIMALLOC_ARENA_EAGER_COMMIT", "0")
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")  # numpy's threads wait in loops; rows have few products
_ONE_AT_A_TIME = threading.Lock()
NOTHING_SPENT = "No budget was spent."
MOST_NAMED = 3  # files of a sentence


class ReadingError(HushrankError):
    """Reading stopped for a reason that is no fault of a file, as far as anybody knows."""


class Reader:
    """A child process that does what is asked, one thing after the other.

    It starts before the first thing is asked and loads its modules meanwhile. Leaving the context
    ends it at once, whatever it does.

    Attributes:
        watch: called with the numbers of files and bytes of a reduction that are read, as they are
            read, and of bytes that an earlier run had read; None: nobody waits for them.
        open_files: names of the files that the child had open when its last call ended, or broke
            off.
    """

    def __init__(self, *modules: str) -> None:
        """Args: modules to load first."""
        self._modules = modules or (READING,)
        self.watch: Callable[[int, int, int], None] | None = None
        self.open_files: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def call(
        self, work: Callable[..., T], *arguments: Any, memory: int | None, cells: int = 0
    ) -> T:
        """Return `work(*arguments)`, computed in the child; a dead child is replaced first.

        Args:
            work: a function of a module; the child imports it by its name.
            arguments: arguments of the function.
            memory: bytes that its reading may take, such as `memory_limit`; None: any number.
            cells: number of cells of the matrices that it makes, which `memory` does not bound.

        Raises:
            ConfigError: a file breaks a rule, broke its parser, or takes too much memory.
            ReadingError: the process ended, or failed for another reason.
            HushrankError: what `work` raised.
            OSError: the machine refused something other than memory to `work`.
        """
        if not self._process.is_alive():
            self.restart()
        files = _Files()
        try:
            self._connection.send((work, arguments, memory, cells))
            while (answer := self._connection.recv())[0] in ("file", "read"):
                if answer[0] == "file":
                    files.note(*answer[1:])
                else:
                    self._show(*answer[1:])
        except (EOFError, OSError):
            self._process.join()
            raise _end_of(self._process.exitcode, files) from None
        except BaseException:  # no counts may appear after the clean-up that follows
            self._stop()
            raise
        finally:
            self.open_files = files.names
        result: T = result_of(answer, files)
        return result

    def _show(self, files: int, n_bytes: int, before: int) -> None:
        """Tell whoever watches how far the reading is; nobody any more, if that cannot be shown."""
        try:
            if self.watch is not None:
                self.watch(files, n_bytes, before)
        except OSError:  # of a terminal or a full disk, say: the rows are counted all the same
            self.watch = None

    def restart(self) -> None:
        """End the child and start another one."""
        self._stop()
        self._start()

    def _start(self) -> None:
        _open_standard_streams()
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._modules), daemon=True)
        # Ctrl-C and the closing of the terminal are for its parent, which ends it.
        with system.deaf_to_interrupts(), _without_main(), _not_a_daemon():
            self._process.start()
        theirs.close()

    def _stop(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.join()


def read_apart(work: Callable[..., T], *arguments: Any, memory: int = DEFAULT_MEMORY) -> T:
    """Return `work(*arguments)` from a child of its own; see `Reader.call`."""
    with Reader() as reader:
        return reader.call(work, *arguments, memory=memory)


class _Files:
    """The files that a child has open, from what it told."""

    def __init__(self) -> None:
        self._open = Counter[str]()

    def note(self, name: str, begins: bool) -> None:
        self._open[name] += 1 if begins else -1

    @property
    def names(self) -> frozenset[str]:
        """Names of the files that are open."""
        return frozenset(name for name, times in self._open.items() if times > 0)

    def __str__(self) -> str:
        """Return the names of open files, of many only some; empty if none is open."""
        names = sorted(self.names)
        more = f" or {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        return " or ".join(names[:MOST_NAMED]) + more


def _end_of(code: int | None, files: _Files) -> HushrankError:
    """The error that says how a child ended, and at which file."""
    which = f"{files}"
    reading = f" while it read {which}" if which else ""
    if (how := system.crash_of(code)) is None:
        return ReadingError(
            "The process that reads the rows ended without an answer (killed, or out of memory)"
            f"{reading}. No budget was spent; run again, with more memory if it recurs."
        )
    if not which:
        return ReadingError(f"The process that reads the rows broke off ({how}). {NOTHING_SPENT}")
    return ConfigError(
        f"{which}: damaged, or too large for memory_limit: the library that reads it broke off"
        f" ({how}). Write it again. {NOTHING_SPENT}"
    )


def result_of(answer: tuple[Any, ...], files: _Files) -> Any:
    """The result that a child sent; or raise the error that it sent in its place."""
    kind, *what = answer
    if kind == "done":
        return what[0]
    if kind == "refused":
        raise what[0](what[1], *what[2])
    if kind == "machine":
        raise OSError(what[0], os.strerror(what[0]), what[1])
    if kind == "memory":
        reading = f" while it reads {files}" if f"{files}" else ""
        raise ReadingError(
            f"The process that reads the rows needs more memory than it may have{reading}. Raise"
            f" memory_limit. {NOTHING_SPENT}"
        )
    which = f"{files}" or "The input"
    raise ReadingError(
        f"{which}: reading failed ({what[0]}). The text of the error may quote a"
        f" row, so it is not shown. {NOTHING_SPENT}"
    )


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep `multiprocessing` from importing this program's main module into the child.

    The child needs none of it. In a script without `if __name__ == "__main__"`, which is how people
    use hushrank from Python, it would run the whole script again, beside the rows.
    """
    with _ONE_AT_A_TIME:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextmanager
def _not_a_daemon() -> Iterator[None]:
    """Let a daemon, such as a worker of `multiprocessing.Pool`, start a child in this block.

    Daemons may have none, because nobody would end them; this child ends with its parent.
    """
    config: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    before = config.get("daemon")
    config["daemon"] = False
    try:
        yield
    finally:
        config["daemon"] = before


def _open_standard_streams() -> None:
    """Open the null device in the place of standard streams that are closed.

    Otherwise a pipe to the child gets their number, and is taken for one of them.
    """
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free


def _serve(connection: Connection, modules: tuple[str, ...]) -> None:
    end_with_parent()
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # engines and native libraries print rows there
        os.dup2(silence, stream)
    system.leave_no_core_file()  # it would hold rows
    for variable in (_LAZY_ALLOCATOR, _ONE_THREAD):  # before Arrow and numpy are loaded
        os.environ.setdefault(*variable)
    for module in modules:
        importlib.import_module(module)
    from hushrank.transforms.common.local_files import report_to
    from hushrank.transforms.storage.files_read import tell_of_reading

    sending = threading.Lock()  # several threads read and send

    def send(*message: Any) -> None:
        with sending:
            connection.send(message)

    report_to(partial(send, "file"))
    tell_of_reading(partial(send, "read"))
    bound = system.MemoryBound()
    while True:
        try:
            work, arguments, memory, cells = connection.recv()
        except EOFError:  # the parent needs this child no more
            return
        bound.set(None if memory is None else hard_limit(memory, cells))
        _answer(send, work, arguments)


def _answer(
    send: Callable[..., None], work: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    """Call the function and send its result, while files that failed are still known as open."""
    from hushrank.transforms.common.schema import InputError

    try:
        send("done", work(*arguments))
    except InputError as error:
        refused = ConfigError.from_input(error)
        send("refused", ConfigError, f"{refused}", refused.problems)
    except HushrankError as error:
        send("refused", type(error), f"{error}", error.problems)
    except MemoryError:
        send("memory")
    except Exception as error:  # the trust boundary: no unforeseen text may cross it
        if isinstance(error, OSError) and error.errno not in (None, errno.ENOMEM):
            name = error.filename
            send("machine", error.errno, name if isinstance(name, str | None) else None)
        elif is_of_memory(error):
            send("memory")
        else:
            send("failed", type(error).__name__)


def end_with_parent() -> None:
    """Send SIGTERM to this process, which `multiprocessing` started, when its parent is gone.

    On Linux the kernel does this, at once and whatever runs here; elsewhere a thread does it.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        raise ValueError("this process was not started by multiprocessing, so it has no parent")
    if not system.ends_with_parent():  # never both: a second signal would interrupt the clean-up
        threading.Thread(target=_wait_for, args=(parent.sentinel,), daemon=True).start()
    if os.getppid() != parent.pid:  # the parent ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGTERM)


def _wait_for(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


ERROR_FILE = "error.txt"
BEAM = "apache_beam"
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)  # no reason to keep what takes the room
LOADED_FIRST = (  # modules that the child loads first; none loads Beam
    READING,
    "hushrank.transforms.comparisons.bound",
    "hushrank.pipelines.reduce.reduction_job",
)


class Reducer:
    """A child process that runs reductions; it starts before the first reduction is known.

    Leaving the context ends the child at once, whatever it does.

    Attributes:
        reader: the child, for whatever else must be read.
    """

    def __init__(self) -> None:
        """Start nothing yet: the context does."""
        self.reader = Reader(*LOADED_FIRST)

    def __enter__(self) -> Self:
        self.reader.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.__exit__()

    def run(self, job: Job) -> None:
        """Run `job` in the child and wait for it.

        Raises:
            ConfigError: the input breaks a rule.
            ReadingError: anything else went wrong; details are in the confidential folder.
        """
        from hushrank.pipelines.engine.runner import Runner
        from hushrank.transforms.storage.files import Service

        files = all(file.format is not Service.BEAM for file in job.files)
        here = job.engine.runner is Runner.LOCAL and files  # a transform may start other programs
        memory = job.memory_limit if here else None  # an engine bounds its own
        while not self.reader.call(_reduce, job, memory=memory, cells=job.cells):
            self.reader.restart()


class _WithoutPandas:
    """Keep Arrow from loading pandas at its first array, where it is installed: nobody needs it."""

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse to find pandas; leave other modules to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _reduce(job: Job) -> bool:
    """Run `job`, where this process is fit for it; False: it needs one that can load Beam."""
    from hushrank.pipelines.engine.runner import does_without_beam
    from hushrank.transforms.common.schema import InputError

    if does_without_beam(job):
        if BEAM not in sys.modules:
            in_process.choose()
            sys.meta_path.insert(0, _WithoutPandas())
    elif in_process.is_chosen():
        return False
    from hushrank.pipelines.reduce import reduce

    try:
        reduce.run(job)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            where = job.engine.spill or job.confidential
            raise OSError(error.errno, os.strerror(error.errno), where) from None
        raise ReadingError(_keep(job, error)) from None
    return True


def _keep(job: Job, error: Exception) -> str:
    """Store the error in the confidential area; return a text that says only where it is.

    An engine's end is told in full: its text is ours, and nothing in it depends on rows.
    """
    from hushrank.pipelines.reduce.kind import EngineEndedError
    from hushrank.transforms.storage.places import write_whole

    if isinstance(error, EngineEndedError):
        return f"reduce: {error}. No budget was spent."
    text = f"reduce: failed ({type(error).__name__}). No budget was spent."
    path = f"{job.confidential}/{ERROR_FILE}"
    try:
        write_whole(path, "".join(traceback.format_exception(error)).encode())
    except OSError as full:
        return f"{text} Nothing could be written to the confidential area: {full.strerror}."
    return f"{text} The details may hold private values, so they are in {path} only."
