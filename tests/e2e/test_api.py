"""libdyntrace.so as its users see it: installed, found by pkg-config, driven by the documentation's examples and by every call."""
import ctypes
import os
import re
import select
import signal
import socket
import struct
import subprocess
import threading
import types

import pytest
from daemon_harness import CALLS, message
from harness import Trace

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "docs", "examples")
HEADER = os.path.join(ROOT, "include", "dyntrace", "dyntrace.h")


# ---- an installed tree -----------------------------------------------------------------------------

class Installed:
    def __init__(self, build, folder):
        self.folder = folder
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": folder})
        self.files = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
        self.library = self.one(r"/libdyntrace\.so\.0")
        self.bin = os.path.dirname(self.one(r"/bin/dyntrace"))

    def one(self, pattern):
        found = [path for path in self.files if re.search(pattern + "$", path)]
        assert len(found) == 1, (pattern, found)
        return found[0]

    def config(self, *words, of="dyntrace"):
        environment = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": self.folder,
                       "PKG_CONFIG_PATH": os.path.dirname(self.one(r"/pkgconfig/dyntrace\.pc"))}
        return subprocess.run(["pkg-config", *words, of], env=environment, check=True, capture_output=True,
                              text=True).stdout.split()

    def environment(self, daemon):
        return {**os.environ, "DYNTRACE_SOCKET": daemon.socket, "LD_LIBRARY_PATH": os.path.dirname(self.library)}


@pytest.fixture
def installed(build, scratch):
    return Installed(build, os.path.join(scratch, "root"))


@pytest.fixture
def example(installed, processes, daemon, scratch):
    """Builds an example with the command in its first lines, and starts it."""
    def start(name, *words):
        program = os.path.join(scratch, name)
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", os.path.join(EXAMPLES, name + ".c"),
                        *installed.config("--cflags", "--libs"), "-o", program], check=True)
        return processes.start([program, *words], env=installed.environment(daemon), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return start


def test_installed_where_the_command_line_document_says(installed):
    prefix = os.path.dirname(installed.bin)
    inside = {os.path.relpath(path, prefix) for path in installed.files}
    assert {"bin/dyntrace", "bin/dyntraced", "lib/dyntrace/libdyntrace-agent.so", "include/dyntrace/dyntrace.h",
            "share/man/man1/dyntrace.1", "share/man/man3/libdyntrace.3", "share/man/man8/dyntraced.8",
            "share/bash-completion/completions/dyntrace", "share/zsh/site-functions/_dyntrace",
            "lib/systemd/system/dyntraced.service", "lib/systemd/system/dyntraced.socket"} <= inside
    assert installed.config("--modversion") == ["0.1.0"]
    assert installed.config("--cflags") == [f"-I{prefix}/include"]
    assert installed.config("--libs") == [f"-L{os.path.dirname(installed.library)}", "-ldyntrace"]


def test_installed_daemon_and_command_find_the_agent(installed, new_daemon, spin):
    """The agent is found from the program's own folder, whatever the system's folder of libraries is called."""
    daemon, one = new_daemon(), spin()
    daemon.build = installed.bin
    daemon.start()
    assert daemon.add(f"{one.pid}:foo") == "foo"
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": CALLS}
    one.finish()


# ---- the library itself ----------------------------------------------------------------------------

# Programs that use them say by the symbol's version that they need such a library.
SINCE_2 = {"dyntrace_status", "dyntrace_list_symbols", "dyntrace_list_symbol", "dyntrace_list_markers",
           "dyntrace_list_marker", "dyntrace_remove_context"}


def declared():
    with open(HEADER) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return set(re.findall(r"\b(dyntrace_\w+)\(", text))


def test_the_agent_is_linked_by_its_pkg_config_file(installed, scratch):
    """A linker that leaves out what isn't used keeps it, and leaves out others as before."""
    program = os.path.join(scratch, "linked")
    words = installed.config("--libs", of="dyntrace-agent")
    subprocess.run(["gcc", "-x", "c", "-o", program, "-", "-Wl,--as-needed", *words, "-lm"], input="int main(void) { return 0; }",
                   text=True, check=True)
    dynamic = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", dynamic) == ["libdyntrace-agent.so", "libc.so.6"]
    place = os.path.dirname(installed.one(r"/libdyntrace-agent\.so"))  # pkg-config puts the root in front
    assert re.findall(r"RUNPATH.*\[(.*)\]", dynamic) == [place]


def test_it_exports_what_the_header_declares_and_needs_nothing_but_libc(installed):
    symbols = subprocess.run(["nm", "-D", "--defined-only", installed.library], check=True, capture_output=True,
                             text=True).stdout
    exported = {line.split()[2] for line in symbols.splitlines() if line.split()[1] != "A"}
    version = {name: "DYNTRACE_1" for name in SINCE_2}
    assert exported == {f"{name}@@{version.get(name, 'DYNTRACE_0')}" for name in declared()}
    dynamic = subprocess.run(["readelf", "-d", installed.library], check=True, capture_output=True, text=True).stdout
    assert re.findall(r"SONAME.*\[(.*)\]", dynamic) == ["libdyntrace.so.0"]
    assert re.findall(r"NEEDED.*\[(.*)\]", dynamic) == ["libc.so.6"]


@pytest.mark.parametrize("compiler", [["cc", "-x", "c", "-std=c99"], ["c++", "-x", "c++", "-std=c++11"]])
def test_the_header_stands_alone(installed, scratch, compiler):
    text = ("#include <dyntrace/dyntrace.h>\n"
            "int main(void) { return dyntrace_api_version() != DYNTRACE_API_VERSION; }\n")
    program = os.path.join(scratch, "alone")
    subprocess.run([*compiler, "-pedantic", "-Wall", "-Wextra", "-Werror", "-", *installed.config("--cflags", "--libs"),
                    "-o", program], check=True, text=True, input=text)
    subprocess.run([program], check=True, env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(installed.library)})


# ---- the examples ----------------------------------------------------------------------------------

def test_example_hits_counts_what_redis_counts(example, redis, daemon):
    daemon.targets.add(str(redis.pid))
    hits = example("hits", redis.pid, "processCommand", "pingCommand")
    assert hits.stdout.readline() == "counting; Enter ends it\n", hits.stderr.read()
    before = redis.commands_processed()
    redis.benchmark(requests=5000, tests="set")
    for _ in range(7):
        assert redis.cli("ping") == "PONG"
    after = redis.commands_processed()
    out, err = hits.communicate("\n", timeout=50)
    assert (hits.returncode, err) == (0, "")
    counted = {name: (int(number), int(returned), int(median)) for name, number, returned, median in
               re.findall(r"^(\w+): (\d+) hits, (\d+) returned, median (\d+) ns$", out, re.M)}
    assert list(counted) == ["processCommand", "pingCommand"]
    # Redis's answers don't count their own question: that of `before` is in `after`, and the last in neither.
    assert counted["processCommand"][0] == counted["processCommand"][1] == after - before + 1
    assert counted["pingCommand"][:2] == (7, 7)
    assert 0 < counted["pingCommand"][2] < 10 ** 9
    assert daemon.json("list-processes") == []
    assert redis.cli("ping") == "PONG"


def test_example_recorder_records_exactly_and_hears_what_happens(example, redis, daemon):
    daemon.targets.add(str(redis.pid))
    recorder = example("recorder", redis.pid, "pingCommand", "tid", "comm")
    lines = [recorder.stdout.readline()]
    while not lines[-1].startswith("recording to "):
        assert lines[-1], recorder.stderr.read()
        lines.append(recorder.stdout.readline())
    trace = lines[-1].split()[-1]

    def say(word):
        recorder.stdin.write(word + "\n")
        recorder.stdin.flush()
        while recorder.stdout.readline() != "done\n":
            assert recorder.poll() is None, recorder.stderr.read()
    for _ in range(5):
        redis.cli("ping")
    say("off")
    for _ in range(3):
        redis.cli("ping")
    say("on")
    for _ in range(4):
        redis.cli("ping")
    out, err = recorder.communicate(timeout=50)
    assert (recorder.returncode, err) == (0, "")
    assert out.splitlines()[-1].startswith(f"redis-server ({redis.pid}): detached")
    seen = Trace(trace)
    assert seen.names() == {"recorded_entry": 9, "recorded_exit": 9} and seen.lost == 0
    assert all(event.fields["tid"] == redis.pid and event.fields["comm"] == "redis-server"
               for event in seen.named("recorded_entry"))


def test_example_recorder_ends_with_its_program(example, spin, daemon):
    one = spin()
    daemon.targets.add(str(one.pid))
    recorder = example("recorder", one.pid, "foo")
    while not recorder.stdout.readline().startswith("recording to "):
        assert recorder.poll() is None, recorder.stderr.read()
    one.finish()
    assert recorder.wait(50) == 0, recorder.stderr.read()
    assert f"spin ({one.pid}): exited" in recorder.stdout.read()


def test_examples_say_what_is_wrong(example, spin, daemon):
    one = spin()
    daemon.targets.add(str(one.pid))
    hits = example("hits", one.pid, "no_such_function")
    out, err = hits.communicate(timeout=50)
    assert (hits.returncode, out) == (1, "") and err.count("\n") == 1
    assert err.startswith("hits: ") and "no_such_function" in err
    assert daemon.json("list-processes") == []
    recorder = example("recorder", one.pid, "foo", "tid", "no_such_context")
    out, err = recorder.communicate(timeout=50)
    assert recorder.returncode == 1 and err.count("\n") == 1 and "no_such_context" in err
    assert daemon.hits(one.pid) == {}


# ---- every call ------------------------------------------------------------------------------------

class Probe(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("location", ctypes.c_char_p), ("shape", ctypes.c_int), ("name", ctypes.c_char_p),
                ("filter", ctypes.c_char_p), ("tracer", ctypes.c_char_p), ("argument", ctypes.c_char_p),
                ("contexts", ctypes.POINTER(ctypes.c_char_p)), ("every", ctypes.c_uint64), ("first", ctypes.c_uint64),
                ("rate", ctypes.c_uint64), ("string_max", ctypes.c_uint64)]


class Tracepoint(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_int)] + \
        [(name, ctypes.c_char_p) for name in "name location tracer state why placed module filter".split()] + \
        [(name, ctypes.c_uint64) for name in "address hits lost calls total p50 p90 p99 max".split()]


class Event(ctypes.Structure):
    _fields_ = [("time_ns", ctypes.c_uint64), ("pid", ctypes.c_int), ("program", ctypes.c_char_p), ("name", ctypes.c_char_p),
                ("detail", ctypes.c_char_p)]


ALL, WAIT, DISABLED = 1, 2, 4
USAGE, NOT_FOUND = 1, 2


class Failure(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Api:
    """api.attach(b"1234", 0) is dyntrace_attach(handle, ...); an error is a Failure."""

    def __init__(self, path, socket):
        self.library = ctypes.CDLL(path)
        for name in declared():
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.dyntrace_list_count.restype = ctypes.c_size_t
        self.library.dyntrace_list_tracepoint.restype = ctypes.POINTER(Tracepoint)
        for name in ("error_kind", "watch_fd"):
            getattr(self.library, "dyntrace_" + name).restype = ctypes.c_int
        for name in ("list_text", "error_text", "notes"):
            getattr(self.library, "dyntrace_" + name).restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        self.check(self.library.dyntrace_connect(socket.encode(), ctypes.byref(self.handle)))

    def check(self, error):
        if not error:
            return
        error = ctypes.c_void_p(error)
        failure = Failure(self.library.dyntrace_error_kind(error), self.library.dyntrace_error_text(error).decode())
        self.library.dyntrace_error_free(error)
        raise failure

    def __getattr__(self, name):
        function = getattr(self.library, "dyntrace_" + name)
        return lambda *words: self.check(function(self.handle, *words))

    def add(self, target, flags=0, **members):
        probe, added = Probe(size=ctypes.sizeof(Probe), **members), ctypes.c_void_p()
        self.check(self.library.dyntrace_add(self.handle, target, ctypes.byref(probe), flags, ctypes.byref(added)))
        return [(one.pid, one.name.decode()) for one in self.tracepoints_in(added)]

    def tracepoints_in(self, found):
        """Copies of a list's tracepoints; frees the list."""
        result = []
        for index in range(self.library.dyntrace_list_count(found)):
            one = self.library.dyntrace_list_tracepoint(found, ctypes.c_size_t(index))[0]
            result.append(types.SimpleNamespace(**{name: getattr(one, name) for name, _ in Tracepoint._fields_}))
        assert not self.library.dyntrace_list_tracepoint(found, ctypes.c_size_t(len(result)))
        assert not self.library.dyntrace_list_process(found, ctypes.c_size_t(0))  # a list of something else
        self.library.dyntrace_list_free(found)
        return result

    def tracepoints(self, target):
        found = ctypes.c_void_p()
        self.check(self.library.dyntrace_list_tracepoints(self.handle, target, 0, ctypes.byref(found)))
        return self.tracepoints_in(found)

    def snapshot_texts(self, target):
        found = ctypes.c_void_p()
        self.check(self.library.dyntrace_snapshot(self.handle, target, 0, ctypes.byref(found)))
        texts = [self.library.dyntrace_list_text(found, ctypes.c_size_t(index)).decode()
                 for index in range(self.library.dyntrace_list_count(found))]
        self.library.dyntrace_list_free(found)
        return texts


@pytest.fixture
def new_api(build):
    made = []

    def make(daemon):
        made.append(Api(os.path.join(build, "libdyntrace.so"), daemon.socket))
        return made[-1]
    yield make
    for one in made:
        one.library.dyntrace_close(one.handle)


def test_tracepoints_change_while_the_program_runs(new_api, daemon, spin):
    api, one = new_api(daemon), spin()
    target = str(one.pid).encode()
    daemon.targets.add(str(one.pid))
    assert api.add(target, location=b"foo", name=b"first") == [(one.pid, "first")]
    assert api.add(target, DISABLED, location=b"foo", name=b"second", shape=1) == [(one.pid, "second")]
    one.round()
    assert [(tp.pid, tp.name, tp.state, tp.hits, tp.location, tp.tracer) for tp in api.tracepoints(target)] == \
        [(one.pid, b"first", b"enabled", CALLS, b"foo", b"ctf"), (one.pid, b"second", b"disabled", 0, b"foo", b"ctf")]
    api.disable(target, b"first", 0)
    api.enable(target, b"sec*", 0)
    one.round()
    api.stop(target, 0)
    one.round()
    api.start(target, 0)
    api.add_context(target, b"second", b"tid", 0)
    one.round()
    api.remove_context(target, b"second", b"tid", 0)
    one.round()
    api.flush(target, 0)
    seen = Trace(daemon.trace_of(one.pid))
    assert seen.names() == {"first": CALLS, "second_entry": 3 * CALLS} and seen.lost == 0
    assert sum(event.fields.get("tid") == one.pid for event in seen.named("second_entry")) == CALLS
    api.remove(target, b"first", 0)
    assert [(tp.name, tp.hits) for tp in api.tracepoints(target)] == [(b"second", 3 * CALLS)]
    api.detach(target, 0)
    assert daemon.json("list-processes") == []
    one.finish()


def test_probe_options_reach_the_daemon(new_api, daemon, spin, scratch):
    api, one = new_api(daemon), spin()
    target = str(one.pid).encode()
    daemon.targets.add(str(one.pid))
    contexts = (ctypes.c_char_p * 3)(b"tid", b"comm", None)
    api.add(target, location=b"foo", name=b"some", every=10, contexts=contexts)
    api.add(target, location=b"foo", name=b"few", first=7)
    api.add(target, location=b"foo", name=b"counted", shape=2, tracer=b"count")
    one.round()
    listed = {tp.name: tp for tp in api.tracepoints(target)}
    assert (listed[b"counted"].tracer, listed[b"counted"].hits, listed[b"counted"].calls) == (b"count", CALLS, CALLS)
    assert 0 < listed[b"counted"].p50 <= listed[b"counted"].p99 <= listed[b"counted"].max <= listed[b"counted"].total
    api.flush(None, 0)
    seen = Trace(daemon.trace_of(one.pid))
    assert seen.names() == {"some": CALLS // 10, "few": 7}
    assert {(event.fields["tid"], event.fields["comm"]) for event in seen.named("some")} == {(one.pid, "spin")}
    api.detach(target, 0)


def test_snapshot_gives_its_directory(new_api, new_daemon, spin):
    daemon = new_daemon("--mode", "overwrite").start()
    api, one = new_api(daemon), spin()
    target = str(one.pid).encode()
    daemon.targets.add(str(one.pid))
    api.add(target, location=b"foo")
    one.round()
    path, = api.snapshot_texts(target)
    assert Trace(path).names() == {"foo": CALLS}
    api.detach(target, 0)


def test_notifications_by_descriptor_and_by_waiting(new_api, daemon, spin):
    api, one = new_api(daemon), spin()
    daemon.targets.add(str(one.pid))
    watch, event = ctypes.c_void_p(), ctypes.POINTER(Event)()
    library = api.library
    api.check(library.dyntrace_watch_open(api.handle, None, ctypes.byref(watch)))
    fd = library.dyntrace_watch_fd(watch)

    def following(timeout):
        api.check(library.dyntrace_watch_next(watch, timeout, ctypes.byref(event)))
        return (event[0].pid, event[0].program, event[0].name) if event else None
    assert following(0) is None and following(20) is None
    assert select.select([fd], [], [], 0)[0] == []
    api.attach(str(one.pid).encode(), 0)
    assert select.select([fd], [], [], 20)[0] == [fd]
    assert following(0) == (one.pid, b"spin", b"attached")
    api.detach(str(one.pid).encode(), 0)
    assert following(20000) == (one.pid, b"spin", b"detached")
    assert following(0) is None
    daemon.stop()
    with pytest.raises(Failure, match="closed the connection"):
        following(20000)
    library.dyntrace_watch_close(watch)
    with pytest.raises(Failure, match="closed the connection"):
        api.start(None, 0)


def event_message(name):
    return message("WIRE_EVENT", sequence=0, WIRE_TIME=1, WIRE_PID=7, WIRE_PROGRAM="redis", WIRE_EVENT_NAME=name)


def test_notifications_that_come_before_the_answer(new_api, scratch):
    """(A1) They are given out first, in their order. The daemon here is the test's own."""
    path = os.path.join(scratch, "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    api = new_api(types.SimpleNamespace(socket=path))
    client, watch, event = listener.accept()[0], ctypes.c_void_p(), ctypes.POINTER(Event)()

    def answer():
        watcher = listener.accept()[0]
        sequence = struct.unpack("<IHHII", watcher.recv(4096)[:16])[3]
        watcher.sendall(event_message("attached") + event_message("detached") + message("WIRE_REPLY", sequence=sequence)
                        + event_message("exited"))
        made.append(watcher)
    made, thread = [], threading.Thread(target=answer)
    thread.start()
    api.check(api.library.dyntrace_watch_open(api.handle, None, ctypes.byref(watch)))
    thread.join()
    names = []
    for _ in range(3):
        api.check(api.library.dyntrace_watch_next(watch, 20000, ctypes.byref(event)))
        names.append(event and event[0].name)
    assert names == [b"attached", b"detached", b"exited"]
    api.library.dyntrace_watch_close(watch)
    for one in (*made, client, listener):
        one.close()


@pytest.fixture
def signals():
    """Sends signals with handlers to this thread, one after the other, until the test is over."""
    before, me, over = signal.signal(signal.SIGUSR1, lambda *_: None), threading.get_ident(), threading.Event()

    def send():
        while not over.wait(0.001):
            signal.pthread_kill(me, signal.SIGUSR1)
    thread = threading.Thread(target=send)
    yield thread.start
    over.set()
    thread.join()
    signal.signal(signal.SIGUSR1, before)


def test_signals_end_the_wait_for_a_notification_and_no_call(new_api, daemon, spin, signals):
    api, one = new_api(daemon), spin()
    target = str(one.pid).encode()
    daemon.targets.add(str(one.pid))
    watch, event = ctypes.c_void_p(), ctypes.POINTER(Event)()
    api.check(api.library.dyntrace_watch_open(api.handle, b"1", ctypes.byref(watch)))
    signals()
    api.check(api.library.dyntrace_watch_next(watch, -1, ctypes.byref(event)))  # would wait forever
    assert not event
    for turn in range(10):
        assert api.add(target, location=b"foo") == [(one.pid, "foo")]
        one.round()
        assert [(tp.name, tp.hits) for tp in api.tracepoints(target)] == [(b"foo", CALLS)]
        api.remove(target, b"foo", 0)
    api.detach(target, 0)
    api.library.dyntrace_watch_close(watch)


def test_all_processes_of_a_name_and_those_to_come(new_api, daemon, spin, own_name):
    api, name = new_api(daemon), own_name.encode()
    with pytest.raises(Failure, match=own_name):
        api.add(name, location=b"foo")
    assert api.add(name, WAIT, location=b"foo", name=b"later") == [(0, "later")]
    assert [(tp.pid, tp.state) for tp in api.tracepoints(name)] == [(0, b"waiting")]
    api.remove(name, b"later", 0)
    both = [spin(name=own_name) for _ in range(2)]
    daemon.targets.update(str(one.pid) for one in both)
    with pytest.raises(Failure, match=str(both[0].pid)):
        api.add(name, location=b"foo")
    assert sorted(api.add(name, ALL, location=b"foo")) == sorted((one.pid, "foo") for one in both)
    api.detach(name, ALL)
    assert daemon.json("list-processes") == []


def test_errors_are_sentences_and_the_handle_goes_on(new_api, daemon, spin, build, scratch):
    api, one = new_api(daemon), spin()
    target = str(one.pid).encode()
    daemon.targets.add(str(one.pid))

    def fails(text, call, kind=USAGE):
        with pytest.raises(Failure) as failure:
            call()
        assert (str(failure.value), failure.value.kind) == (text, kind)
    fails("the target is missing", lambda: api.attach(None, 0))
    fails("the target is missing", lambda: api.detach(b"", 0))
    fails("the tracepoint's name is missing", lambda: api.remove(target, None, 0))
    fails("the context's type is missing", lambda: api.add_context(target, b"foo", None, 0))
    fails("the probe's location is missing", lambda: api.add(target))
    fails("unknown shape of the probe: 9", lambda: api.add(target, location=b"foo", shape=9))
    fails("the library is missing", lambda: api.load(target, None, 0))
    unset = Probe(location=b"foo")
    fails("the probe's size isn't set (probe.size = sizeof(probe))",
          lambda: api.check(api.library.dyntrace_add(api.handle, target, ctypes.byref(unset), 0, None)))
    newer = (ctypes.c_char * (ctypes.sizeof(Probe) + 8))()
    ctypes.memmove(newer, ctypes.byref(Probe(size=len(newer), location=b"foo")), ctypes.sizeof(Probe))
    newer[len(newer) - 1] = 1
    fails("the probe has a field that this version of libdyntrace (2) doesn't know",
          lambda: api.check(api.library.dyntrace_add(api.handle, target, newer, 0, None)))
    said = daemon.fails("list-tracepoints", one.pid)
    fails(said, lambda: api.tracepoints(target), kind=NOT_FOUND)
    assert api.add(target, location=b"foo") == [(one.pid, "foo")]  # after all that, the same handle
    api.detach(target, 0)
    nowhere = os.path.join(scratch, "nowhere")
    with pytest.raises(Failure, match=f"^no daemon answers at {nowhere} \\(start one with"):
        Api(os.path.join(build, "libdyntrace.so"), nowhere)


def test_an_older_programs_shorter_probe_is_understood(new_api, daemon, spin):
    api, one = new_api(daemon), spin()
    target = str(one.pid).encode()
    daemon.targets.add(str(one.pid))
    old = Probe(size=Probe.shape.offset, location=b"foo", shape=77, every=5)  # it knew nothing of those
    api.check(api.library.dyntrace_add(api.handle, target, ctypes.byref(old), 0, None))
    one.round()
    assert [(tp.name, tp.hits) for tp in api.tracepoints(target)] == [(b"foo", CALLS)]
    api.detach(target, 0)


def test_files_are_named_from_where_the_caller_is(new_api, daemon, spin, scratch, monkeypatch):
    api, one = new_api(daemon), spin()
    target = str(one.pid).encode()
    daemon.targets.add(str(one.pid))
    monkeypatch.chdir(scratch)
    api.add(target, location=b"foo", tracer=b"log", argument=b"lines")
    one.round()
    api.detach(target, 0)
    with open(os.path.join(scratch, "lines")) as file:
        assert len(file.readlines()) == CALLS
    api.add(target, location=b"foo", argument=b"mine")
    one.round()
    api.detach(target, 0)
    assert Trace(os.path.join(scratch, "mine")).names() == {"foo": CALLS}


@pytest.mark.parametrize("size", [1, 7, 2 ** 20, 2 ** 32 + 64, 2 ** 63])
def test_a_string_max_out_of_range_is_refused(new_api, daemon, spin, size):
    api, one = new_api(daemon), spin()
    daemon.targets.add(str(one.pid))
    with pytest.raises(Failure, match="^the length of recorded strings must be from 8 to 1024 bytes$"):
        api.add(str(one.pid).encode(), location=b"foo", string_max=size)
    assert daemon.json("list-processes") == []


def test_more_contexts_than_fit_are_refused_and_not_left_out(new_api, daemon, spin):
    api, one = new_api(daemon), spin()
    daemon.targets.add(str(one.pid))
    words = [f"uint8_t:byte{i}:foo+{i}".encode() for i in range(33)]
    with pytest.raises(Failure, match="^too many contexts: 33 \\(at most 32\\)$"):
        api.add(str(one.pid).encode(), location=b"foo", contexts=(ctypes.c_char_p * 34)(*words, None))
    api.add(str(one.pid).encode(), location=b"foo", contexts=(ctypes.c_char_p * 33)(*words[:32], None))
    one.round()
    seen = daemon.finish(one.pid)
    assert seen.names() == {"foo": CALLS}
    assert {name for name in seen.events[0].fields if name.startswith("byte")} == {f"byte{i}" for i in range(32)}
