"""Lets calls of one kind of process of dyntraced fail during a command, one call per run, each with a fresh daemon and target.

    daemon_faults.py BUILD [--only OPERATION] [--role ROLE] [--thin N | --every N | --call N] [--slice I/N] [--stacks]

A first run notes the calls. Then one call fails per run: one per way by which the code comes to a call; --thin: N of those, evenly
spread; --every: each Nth of all. Afterwards the client has said at most one line and hasn't waited; the daemon lives; the target is
alive, no thread of it is held, and what the daemon lists is what is in its text; the next commands work; the trace has each call of
the tracepoints that the command wasn't about, once; after `detach` text, mappings and descriptors are as they were found, and no
process and no descriptor of the daemon is left.

It goes into a pid namespace of its own: a worker looks at every process, and the machine's others would be most of the calls.
"""
import argparse
import collections
import ctypes
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import daemon_harness  # noqa: E402
import harness  # noqa: E402

CLASSES = 8
FAULT_DEPTH, NOTED = 24, 1 << 16  # inject.h
ROLES = ["supervisor", "worker", "keeper", "asker"]
THREADS, FUNCTIONS = 4, 24  # tests/programs/worker.h
ENOUGH = 10  # calls of a function, so that its count says something
SECONDS = 60  # after which a client hangs
SLOW = 8
KEPT = ["work_0", "work_1", "work_2"]  # no operation is about these
SUBJECT, LATER = "work_3", "work_5"


class Control(ctypes.Structure):
    """struct inject_control"""
    _fields_ = [("classes", ctypes.c_uint32), ("role", ctypes.c_uint32), ("nth", ctypes.c_uint64), ("calls", ctypes.c_uint64),
                ("fired", ctypes.c_uint32), ("killed", ctypes.c_uint32), ("name", ctypes.c_char * 24), ("base", ctypes.c_uint64),
                ("depth", ctypes.c_uint64), ("stack", ctypes.c_uint64 * FAULT_DEPTH), ("noted", ctypes.c_uint32 * NOTED)]


class Shared(ctypes.Structure):
    """The beginning of struct shared."""
    _fields_ = [("paused", ctypes.c_uint32), ("standing", ctypes.c_uint32), ("calls", ctypes.c_uint64 * 2 * FUNCTIONS * THREADS)]


# An operation: the words of the command, what happens before it, and what it may change.
Operation = collections.namedtuple("Operation", "words before mode stands")


def operation(*words, before=(("add", "P:work_[0-3]"),), mode="discard", stands=False):
    return Operation(words, before, mode, stands)


OPERATIONS = {
    "attach": operation("attach", "P", before=()),
    "attach-add": operation("add", "P:work_[0-3]", before=()),
    "add": operation("add", f"P:{SUBJECT}", before=(("add", "P:work_[0-2]"),)),
    "rm": operation("rm", f"P:{SUBJECT}"),
    "disable": operation("disable", f"P:{SUBJECT}"),
    "enable": operation("enable", f"P:{SUBJECT}", before=(("add", "P:work_[0-3]"), ("disable", f"P:{SUBJECT}"))),
    "list": operation("list-tracepoints", "P"),
    "flush": operation("flush", "P"),
    "snapshot": operation("snapshot", "P", before=(("attach", "--mode", "overwrite", "P"), ("add", "P:work_[0-3]")), mode="overwrite"),
    "detach": operation("detach", "P", stands=True),
}


class Trouble(Exception):
    pass


def check(fine, what):
    if not fine:
        raise Trouble(what)


# ---- the target ----------------------------------------------------------------------------------

class Target:
    """A program whose threads call functions and count the calls."""

    def __init__(self, processes, build):
        memory = os.memfd_create("shared", 0)
        os.ftruncate(memory, 65536)
        self.map = mmap.mmap(memory, 65536)
        self.shared = Shared.from_buffer(self.map)
        self.shared.paused = 1
        self.process = processes.start([os.path.join(build, "tests", "programs", "worker"), "threads", memory, -1], pass_fds=[memory])
        os.close(memory)
        self.pid = self.process.pid
        self.stand()
        self.before = self.look()

    def look(self):
        return harness.maps(self.pid), harness.text(self.pid), harness.descriptors(self.pid)

    def calls(self, name, done=True):
        function = int(name.split("_")[1])
        return sum(self.shared.calls[thread][function][done] for thread in range(THREADS))

    def stand(self):
        self.shared.paused = 1
        harness.until(lambda: self.process.poll() is not None or self.shared.standing == THREADS, "the target to stand still")
        check(self.process.poll() is None, f"the target has ended: {self.process.poll()}")

    def go(self, names):
        """Runs until each function was called some times."""
        wanted = {name: self.calls(name) + ENOUGH for name in names}
        self.shared.paused = 0
        harness.until(lambda: self.process.poll() is not None or all(self.calls(name) >= n for name, n in wanted.items()),
                      "the target to call its functions")
        check(self.process.poll() is None, f"the target has ended: {self.process.poll()}")

    def is_patched(self, address):
        for start, text in self.before[1].items():
            if start <= address < start + len(text):
                with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as mem:
                    mem.seek(address)
                    return mem.read(5) != text[address - start:address - start + 5]
        raise Trouble(f"no text at {address:#x}")

    def held(self):
        """Threads that somebody holds."""
        found = []
        for tid in harness.threads(self.pid):
            with open(f"/proc/{self.pid}/task/{tid}/status") as file:
                lines = file.read()
            if re.search(r"^State:\s+[tTZ]", lines, re.M) or not re.search(r"^TracerPid:\s+0$", lines, re.M):
                found.append(tid)
        return found

    def check_as_found(self):
        now = self.look()
        for what, old, new in zip(("mappings", "text", "descriptors"), self.before, now):
            if old == new:
                continue
            if what == "text":
                told = [harness.difference(start, old[start], new.get(start, b"")) for start in old if old[start] != new.get(start)]
            else:
                told = sorted(set(map(str, new)) ^ set(map(str, old)))
            raise Trouble(f"the target's {what} aren't as they were: {told}")
        check(not self.held(), f"somebody holds threads of the target: {self.held()}")


# ---- one run ---------------------------------------------------------------------------------------

def helpers_of(daemon):
    """Workers and keepers; a zombie isn't one. A child that hasn't become one yet has the daemon's own words."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        is_helper = words[0] == b"dyntraced" and len(words) > 1 and words[1].startswith((b"--worker", b"--keeper"))
        if is_helper or (words[0].endswith(b"/dyntraced") and int(name) != daemon.process.pid):
            found.append(b" ".join(words).decode().strip())
    return found


class Run:
    def __init__(self, build, operation, folder, processes):
        self.operation = operation
        self.build = build
        self.daemon = daemon_harness.Daemon(folder, processes, tempfile.mkdtemp(dir=folder))
        self.processes = processes
        self.error = ""

    def words(self, words):
        return [re.sub(r"^P\b", str(self.target.pid), word) for word in words]

    def ask(self, *words):
        """A command that has to work."""
        try:
            return self.daemon(*self.words(words), seconds=SECONDS)
        except subprocess.TimeoutExpired:
            raise Trouble(f"the client waits for ever: {' '.join(words)}") from None
        except AssertionError as error:
            raise Trouble(f"'{' '.join(words)}' afterwards: {error}") from None

    def list(self):
        return {one["name"]: one for one in self.daemon.json("list-tracepoints", self.target.pid)}

    def act(self, control, role, nth):
        control.fired = control.killed = control.calls = 0
        control.role, control.nth = ROLES.index(role), nth
        control.classes = (1 << CLASSES) - 1
        try:
            result = self.daemon(*self.words(self.operation.words), status=None, seconds=SECONDS)
            if self.operation.words[0] == "detach" and not result.returncode:
                harness.until(lambda: not helpers_of(self.daemon), "the worker to end")
        except subprocess.TimeoutExpired:
            raise Trouble("the client waits for ever") from None
        except AssertionError as error:
            raise Trouble(str(error)) from None
        finally:
            control.classes = 0
        self.failed = result.returncode != 0
        self.error = result.stderr.rstrip("\n")
        self.output = result.stdout
        check(result.returncode in (0, 1), f"the client's exit status is {result.returncode}: {self.error}")
        check(not self.failed or re.fullmatch(r"dyntrace: [^\n]+\n", result.stderr), f"not one line: {result.stderr!r}")

    def prepare(self):
        self.daemon.start()
        self.target = Target(self.processes, self.build)
        self.begun = {}
        for words in self.operation.before:
            self.ask(*words)
        for name in [*KEPT, SUBJECT]:
            self.begun[name] = self.target.calls(name)
        if self.operation.before:
            self.target.go([*KEPT, SUBJECT])
        else:
            self.target.shared.paused = 0
        if self.operation.stands:
            self.target.stand()
        self.trace = self.trace_path()

    def trace_path(self):
        return self.attached()[0].get("trace") if self.attached() else None

    def attached(self):
        return [one for one in self.daemon.json("list-processes") if one["pid"] == self.target.pid]

    def check_list(self, names):
        """What is listed is in the text, and nothing else is (H32)."""
        listed = self.list()
        for name in names:
            check(name in listed, f"{name} isn't listed any more")
        for name, one in listed.items():
            check(one.get("placed"), f"{name} is listed, and not placed: {one}")
        addresses = {one["address"] for one in listed.values() if one["placed"] != "removed"}
        some = next(iter(listed.values()))
        first = some["address"] - 16 * int(some["name"].split("_")[1])
        for at in range(first, first + 16 * FUNCTIONS, 16):
            check(self.target.is_patched(at) == (at in addresses),
                  f"work_{(at - first) // 16} is {'not ' if at not in addresses else ''}listed, "
                  f"and {'not ' if not self.target.is_patched(at) else ''}in the text")
        return listed

    def check_counts(self, path, wanted):
        trace = harness.Trace(path)
        names = trace.names()
        found = {name: names.get(name, 0) for name in wanted}
        fine = found == wanted and not trace.lost
        if trace.lost:  # a write that failed, and is told of
            subject = max(names.get(SUBJECT, 0), self.target.calls(SUBJECT) - self.begun.get(SUBJECT, 0)) if SUBJECT not in wanted else 0
            missing = sum(wanted.values()) + subject - sum(names.values())
            fine = all(found[name] <= wanted[name] for name in wanted) and \
                sum(wanted.values()) - sum(found.values()) <= trace.lost <= missing
        check(fine, f"the trace has {found}, lost {trace.lost}; calls: {wanted}")

    def check_after_death(self):
        """The target was killed, as the only reason why such a request fails."""
        self.target.process.wait(20)
        harness.until(lambda: not helpers_of(self.daemon), "the worker of an ended target to end")
        self.target = Target(self.processes, self.build)
        self.ask("add", f"P:{LATER}")
        self.target.go([LATER])
        self.ask("detach", "P")
        self.target.stand()
        self.target.check_as_found()

    def detach_again(self):
        """After a `detach` that has failed: takes out what is left, if anything is."""
        result = self.daemon(*self.words(["detach", "P"]), status=None, seconds=SECONDS)
        check(result.returncode == 0 or result.stderr == f"dyntrace: process {self.target.pid} is not traced\n",
              f"'detach' once more: {result.stderr}")

    def check_ended(self):
        """A `detach` that has worked, or an attach that has failed."""
        harness.until(lambda: not helpers_of(self.daemon), "the worker to end")
        if self.failed and (self.operation.words[0] == "detach" or f"'dyntrace detach {self.target.pid}' removes" in self.error):
            self.detach_again()
        self.target.check_as_found()
        if self.operation.words[0] == "detach":
            self.check_counts(self.trace, {name: self.target.calls(name) - self.begun[name] for name in [*KEPT, SUBJECT]})
        self.begun = {}

    def check_next(self):
        """The next commands; then everything is as before."""
        self.target.stand()
        # a worker that is about to take over isn't listed yet, and one that was told to leave isn't gone yet
        harness.until(lambda: self.attached() or not helpers_of(self.daemon), "a worker, or none")
        if not self.attached():
            self.check_ended()
        kept = KEPT if self.operation.before and self.begun else []
        self.begun[LATER] = self.target.calls(LATER)
        self.ask("add", f"P:{LATER}")
        listed = self.check_list([*kept, LATER])
        self.target.go([*kept, LATER])
        self.target.stand()
        wanted = {name: self.target.calls(name) - self.begun[name] for name in [*kept, LATER]}
        if self.operation.mode == "overwrite":
            path = self.ask("snapshot", "P").stdout.strip()
            # a worker that took over has a buffer of its own
            self.check_counts(path, {LATER: wanted[LATER]} if "its worker died" in self.daemon.log_text() else wanted)
            self.ask("detach", "P")
        else:
            path = self.trace_path()
            listed = self.check_list([*kept, LATER])
            check(listed[LATER]["hits"] == wanted[LATER], f"{LATER} was hit {listed[LATER]['hits']} times, called {wanted[LATER]} times")
            self.ask("detach", "P")
            self.check_counts(path, wanted)

    def links(self):
        """The daemon's descriptors; it closes a client's some time after the client's end."""
        return collections.Counter(re.sub(r"\d+", "N", link.replace(self.daemon.scratch, ""))
                                   for link in harness.descriptors(self.daemon.process.pid).values())

    def check_rest(self, reference):
        harness.until(lambda: not helpers_of(self.daemon), "workers and keepers to end")
        if self.target.process.poll() is None:
            self.target.check_as_found()
            self.target.go([LATER])
        try:
            harness.until(lambda: not reference or not self.links() - reference, "")
        except AssertionError:
            raise Trouble(f"the daemon has descriptors left: {self.links() - reference}") from None
        links = self.links()
        check(self.daemon.process.poll() is None, f"the daemon has ended: {self.daemon.process.poll()}")
        check(self.daemon.stop() == 0, f"the daemon ends with {self.daemon.process.returncode}")
        return links

    def go(self, control, role, nth, reference):
        self.prepare()
        try:
            self.act(control, role, nth)
            check(self.daemon.process.poll() is None, f"the daemon has ended: {self.daemon.process.poll()}")
            if control.killed:
                self.check_after_death()
            else:
                self.check_next()
            return self.check_rest(reference)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise Trouble(f"{type(error).__name__}: {error}") from None

    def close(self):
        self.daemon.targets.clear()
        self.daemon.close()


# ---- all of them ---------------------------------------------------------------------------------

class Driver:
    def __init__(self, build, arguments):
        self.build, self.arguments = build, arguments
        self.folder = tempfile.mkdtemp(prefix="dyntrace-faults-", dir=harness.memory())
        self.program = os.path.join(self.folder, "dyntraced")
        shutil.copy(os.path.join(build, "tests", "dyntraced_faults"), self.program)
        os.symlink(os.path.join(build, "dyntrace"), os.path.join(self.folder, "dyntrace"))
        shutil.copy(os.path.join(build, "libdyntrace-agent.so"), self.folder)
        with open(self.program + ".faults", "w+b") as file:
            file.truncate(ctypes.sizeof(Control))
            self.map = mmap.mmap(file.fileno(), ctypes.sizeof(Control))
        self.control = Control.from_buffer(self.map)
        self.bad = 0

    def run(self, name, role, nth, reference=None):
        """(trouble, or ""; the run's descriptors)."""
        processes = harness.Processes()
        run = Run(self.build, OPERATIONS[name], self.folder, processes)
        began = time.monotonic()
        links, trouble, log = None, "", ""
        try:
            links = run.go(self.control, role, nth, reference)
        except Trouble as error:
            trouble = str(error)
            log = run.daemon.log_text()
        finally:
            run.close()
            processes.close()
            shutil.rmtree(run.daemon.scratch, ignore_errors=True)
        took = time.monotonic() - began
        what = self.control.name.decode() if self.control.fired else "nothing fails"
        if trouble or self.arguments.stacks:
            print(f"  {name}, {role}, call {nth}, {what}: {'TROUBLE: ' + trouble if trouble else 'fine'} | {run.error}", flush=True)
            print("".join(f"      log: {line}\n" for line in log.splitlines()[-8:]), end="")
            self.print_stack()
        elif took > SLOW:
            print(f"  {name}, {role}, call {nth}, {what}: took {took:.1f} s | {run.error}", flush=True)
        self.bad += bool(trouble)
        return links

    def print_stack(self):
        if not self.control.fired:
            return
        places = [f"{at - self.control.base - 1:x}" for at in self.control.stack[:self.control.depth]
                  if 0 < at - self.control.base < 1 << 28]
        told = subprocess.run(["addr2line", "-spfe", self.program, *places], capture_output=True, text=True).stdout
        print("".join(f"      {line}\n" for line in told.splitlines()[:14] if "?" not in line), end="", flush=True)

    def choose(self):
        calls = min(self.control.calls, NOTED)
        first = {}
        for call in range(calls):
            first.setdefault(self.control.noted[call], call + 1)
        chosen = sorted(first.values())
        if self.arguments.call:
            return [self.arguments.call]
        if self.arguments.every:
            return list(range(1, calls + 1, self.arguments.every))
        if self.arguments.thin and len(chosen) > self.arguments.thin:
            chosen = [chosen[at * len(chosen) // self.arguments.thin] for at in range(self.arguments.thin)]
        slice_, slices = map(int, self.arguments.slice.split("/"))
        return chosen[slice_::slices]

    def drive(self, name, role):
        before = self.bad
        reference = self.run(name, role, 0) or collections.Counter()
        calls = self.control.calls
        chosen = self.choose()
        began = said = time.monotonic()
        for number, nth in enumerate(chosen):
            self.run(name, role, nth, reference)
            if time.monotonic() > said + 30:
                said = time.monotonic()
                print(f"  {name}, {role}: {number + 1} of {len(chosen)} runs, {self.bad - before} bad, {said - began:.0f} s",
                      file=sys.stderr, flush=True)
        print(f"{name}, {role}: {calls} calls, {len(chosen)} runs, {self.bad - before} bad", flush=True)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def drive(build, *words):
    """For tests: all runs must be fine."""
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), build, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, start_new_session=True, preexec_fn=harness.die_with_parent)
    try:
        output = process.communicate()[0]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0 and " 0 bad" in output, output


def enter_namespace():
    """Starts this program again, below a shell that waits for everybody."""
    if os.environ.get("DYNTRACE_FAULTS_INSIDE"):
        return
    os.environ["DYNTRACE_FAULTS_INSIDE"] = "1"
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        print("no pid namespace: goes on beside all processes", file=sys.stderr)
        return
    os.execvp(words[0], [*words, "sh", "-c", '"$@"; exit $?', "sh", sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", choices=OPERATIONS)
    parser.add_argument("--role", choices=ROLES)
    parser.add_argument("--thin", type=int)
    parser.add_argument("--every", type=int)
    parser.add_argument("--call", type=int)
    parser.add_argument("--slice", default="0/1")
    parser.add_argument("--stacks", action="store_true")
    arguments = parser.parse_args()
    enter_namespace()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    harness.PATIENCE = 3  # what hangs is told of at once
    driver = Driver(os.path.abspath(arguments.build), arguments)
    try:
        for name in [arguments.only] if arguments.only else OPERATIONS:
            for role in [arguments.role] if arguments.role else ROLES[:3]:
                driver.drive(name, role)
    finally:
        driver.close()
    return 1 if driver.bad else 0


if __name__ == "__main__":
    sys.exit(main())
