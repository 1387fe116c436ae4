"""--tracer lttng: events of LTTng-UST, defined at run time, judged by lttng and babeltrace2."""
import collections
import contextlib
import os
import re
import select
import shutil
import subprocess

import pytest

import harness
from harness import Snapshot, until
from lttng import Lttng, build_small, listens, parse

SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum color { RED, GREEN = 5 };
struct pair { char tag; long value; };
volatile long sink;
__attribute__((noinline)) int foo(int a, double d, const char *s, unsigned char b) { sink += a; return a * 2; }
__attribute__((noinline)) long shapes(enum color c, struct pair *p, float f, signed char n) { sink += n + p->value + p->tag; return -7; }
__attribute__((noinline)) void outer(void) { foo(1000, 0.5, "outer", 1); sink++; }
static void *run(void *n)
{
	char text[16];
	for (long i = 0; i < (long)n; i++) {
		snprintf(text, sizeof(text), "text %ld", i);
		foo((int)i, i / 4.0, text, (unsigned char)i);
	}
	return NULL;
}
static void round_of(long n)
{
	pthread_t t[2];
	struct pair p = { 'x', 123456789012 };
	for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, run, (void *)n);
	for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
	shapes(GREEN, &p, 1.25f, -3);
	outer();
}
int main(int argc, char **argv)
{
	char line[64];
	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc > 1) { round_of(atol(argv[1])); return 3; }
	printf("%p\n", (void *)foo);
	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] == 'f' && !fork()) { run((void *)5L); _exit(0); }
		if (line[0] == 'f') wait(NULL);
		else round_of(atol(line));
		printf("done\n");
	}
	return 0;
}
"""
needs_lttng = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("lttng-sessiond") or not shutil.which("unshare"),
                                 reason="needs root, lttng-tools and util-linux")
pytestmark = needs_lttng


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lttng")
    (folder / "typed.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", folder / "typed", folder / "typed.c"], check=True)
    return folder / "typed"


@pytest.fixture
def lttng(processes, build):
    if not os.path.exists(os.path.join(build, "libdyntrace-lttng.so")):
        pytest.skip("libdyntrace-lttng.so isn't built: no liblttng-ust-dev")
    return Lttng(processes)


class Target:
    """The program, in the session daemon's namespaces; runs a round per do()."""

    def __init__(self, lttng, processes, program, env=None):
        self.process = processes.start(lttng.inside(program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       env={**lttng.env, **(env or {})})
        self.address = int(self.process.stdout.readline(), 16)
        self.pid = self.process.pid

    def do(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


class Tracer:
    def __init__(self, processes, build, scratch, pid, *words):
        self.process = processes.start([os.path.join(build, "dyntrace"), "trace", "-p", pid, "--tracer", "lttng", *words],
                                       cwd=scratch, stderr=subprocess.PIPE, text=True)
        self.first = self.process.stderr.readline()
        assert "Ctrl-C ends it" in self.first, self.first + self.process.stderr.read()

    def end(self):
        self.process.send_signal(2)
        return self.process.communicate(timeout=30)[1]


@pytest.fixture
def target(lttng, processes, program):
    return Target(lttng, processes, program)


def names(events):
    return collections.Counter(name for name, _ in events)


def test_documents_form(lttng, processes, build, scratch, target):
    """Events without a name have the kind of probe and its address."""
    lttng.create("dyntrace_lttng:*")
    entry = Tracer(processes, build, scratch, target.pid, "--function", "foo", "-e", "--probe", "outer")
    target.do(10)
    summary = entry.end()
    events = lttng.stop()
    assert names(events) == {"dyntrace_lttng:tracepoint_hit": 1, "dyntrace_lttng:function_entry": 21,
                             "dyntrace_lttng:function_exit": 21}
    of_foo = [fields for name, fields in events if "function" in name]
    assert {int(fields["address"], 16) for fields in of_foo} == {target.address}
    assert all(set(fields) == {"cpu_id", "address"} for _, fields in events)
    assert harness.hits(summary, "foo") == 21


def test_named_typed_values(lttng, processes, build, scratch, target):
    lttng.create("dyntrace:*")
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo", "-e")
    target.do(50)
    tracer.end()
    events = lttng.stop()
    assert names(events) == {"dyntrace:call_entry": 101, "dyntrace:call_exit": 101}
    entries = [fields for name, fields in events if name == "dyntrace:call_entry"]
    seen = collections.Counter((f["a"], f["d"], f["s"], f["b"]) for f in entries)
    expected = collections.Counter({(str(i), f"{i / 4.0:g}", f'"text {i}"', str(i)): 2 for i in range(50)})
    expected[("1000", "0.5", '"outer"', "1")] = 1
    assert seen == expected
    exits = [fields for name, fields in events if name == "dyntrace:call_exit"]
    assert sorted(int(f["ret"]) for f in exits) == sorted([2 * i for i in range(50)] * 2 + [2000])
    assert all(0 <= int(f["duration"]) < 10**9 for f in exits)
    assert {int(f["address"], 16) for f in entries + exits} == {target.address}


@pytest.mark.parametrize("condition, numbers", [
    ("$ret > 90", [46, 46, 47, 47, 48, 48, 49, 49, 1000]), ('entry:a == 7 && $ret == 14', [7, 7])])
def test_filter_at_the_exit(lttng, processes, build, scratch, target, condition, numbers):
    """All entries are recorded, and the exits that pass the filter."""
    lttng.create("dyntrace:*")
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo", "-e", "--filter", condition)
    target.do(50)
    tracer.end()
    events = lttng.stop()
    assert names(events)["dyntrace:call_entry"] == 101
    assert sorted(int(f["ret"]) for name, f in events if name == "dyntrace:call_exit") == [2 * n for n in numbers]


def test_shapes_and_contexts(lttng, processes, build, scratch, target):
    """Enumerations have their names, small integers are signed, and contexts are fields like others."""
    lttng.create("dyntrace:*")
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "shapes", "--function", "shapes", "-e", "-t", "reg:rdi",
                    "-t", "tid", "-t", "var:p->value", "-t", "var:p->tag", "-t", "backtrace:4")
    target.do(1)
    tracer.end()
    (name, entry), (_, exit_) = lttng.stop()
    assert name == "dyntrace:shapes_entry"
    assert (entry["c"], entry["f"], entry["n"]) == ('( "GREEN" : container = 5 )', "1.25", "-3")
    assert exit_["ret"] == "-7"
    assert "123456789012" in entry.values()
    assert int(entry["reg_rdi"] if "reg_rdi" in entry else entry["rdi"], 0) == 5
    assert str(target.pid) in (entry.get("tid"), entry.get("_tid"))
    assert len(re.findall(r"0x[0-9A-Fa-f]+", entry["backtrace"])) == 4


CONTAINERS = r"""
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>
enum class kind { near, far };
struct order { short id; std::vector<unsigned char> parts; kind where; };
__attribute__((noinline)) void foo(const std::vector<int> &ints, const std::vector<double> &reals, const std::map<std::string, order> &orders,
				   std::optional<long> maybe, const std::vector<std::string> &texts, const char *last)
{ asm volatile("" :: "r"(&ints), "r"(&reals), "r"(&orders), "r"(&maybe), "r"(&texts), "r"(last)); }
int main()
{
	char line[64];
	setvbuf(stdout, nullptr, _IONBF, 0);
	printf("%p\n", (void *)foo);
	while (fgets(line, sizeof(line), stdin)) {
		foo({ 1, -2, 3 }, { 0.1, 1e300, -2 }, { { "a\"b", { 7, { 1, 2 }, kind::far } }, { "", { -8, {}, kind::near } } }, 5, { "x", "y" }, "last");
		foo({}, {}, {}, {}, std::vector<std::string>(16, std::string(60, 'z')), "last");
		printf("done\n");
	}
}
"""


def test_containers(lttng, processes, build, scratch, tmp_path):
    """Integers are LTTng's sequences, which filters know; other elements are text, cut where there is no room for all."""
    path = tmp_path / "containers"
    subprocess.run(["g++", "-std=c++17", "-g", "-O0", "-x", "c++", "-", "-o", path], check=True, input=CONTAINERS, text=True)
    target = Target(lttng, processes, path)
    lttng.create("dyntrace:*")
    lttng.create(["dyntrace:*", "--filter", "ints_elements[1] == -2 && orders_size == 2"], session="second")
    tracer = Tracer(processes, build, scratch, target.pid, "--typed", "--function", "foo")
    target.do(1)
    assert "aren't" not in tracer.end()
    (_, first), (_, second) = lttng.stop()
    assert [event for event in lttng.stop("second")] == [("dyntrace:foo_entry", first)]
    assert first["ints_size"] == "3" and first["ints_elements"] == "[ [0] = 1, [1] = -2, [2] = 3 ]"
    assert first["reals_elements"] == '"[ 0.1, 1e+300, -2 ]"'
    assert first["orders_elements"] == r'"[ { first = \"\", second = { id = -8, parts = { size = 0, elements = [] }, where = near } }, ' \
        r'{ first = \"a\\\"b\", second = { id = 7, parts = { size = 2, elements = [ 1, 2 ] }, where = far } } ]"'
    assert first["maybe_value"] == "[ [0] = 5 ]" and first["texts_elements"] == r'"[ \"x\", \"y\" ]"' and first["last"] == '"last"'
    assert second["ints_elements"] == "[ ]" and second["orders_elements"] == '"[]"' and second["maybe_value"] == "[ ]"
    assert second["texts_size"] == "16" and second["texts_elements"].count("z" * 60) >= 8 and second["last"] == '"last"'


def test_filter_on_an_enumeration(lttng, processes, build, scratch, target):
    """Each of two sessions gets the events of its filter; LTTng compares the container."""
    lttng.create(["dyntrace:shapes_entry", "--filter", "c == 5"], session="green")
    lttng.create(["dyntrace:shapes_entry", "--filter", "c == 0"], session="red")
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "shapes", "--function", "shapes")
    target.do(1)
    tracer.end()
    assert [fields["c"] for _, fields in lttng.stop(session="green")] == ['( "GREEN" : container = 5 )']
    assert lttng.stop(session="red") == []


def test_what_lttng_has(lttng, processes, build, scratch, target):
    """LTTng's own list, filters, contexts, wildcards and two sessions; events are unregistered at the end."""
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo", "-e")
    listed = lttng("list", "--userspace", "--fields")
    assert re.search(rf"PID: {target.pid} - Name: \S*typed$", listed, re.MULTILINE)
    for word in ("dyntrace:call_entry", "dyntrace:call_exit", "dyntrace_lttng:tracepoint_hit", "duration"):
        assert word in listed
    lttng.create(["dyntrace:call_entry", "--filter", "a > 5 && a < 16 && d != 2.5 && s != \"text 9\""], session="one")
    lttng.create("dyntrace:call_e*t", session="two", start=False)
    lttng("add-context", "--userspace", "-s", "two", "-t", "vtid", "-t", "ip")
    lttng("start", "two")
    target.do(20)
    one, two = lttng.stop("one"), lttng.stop("two")
    assert sorted(int(f["a"]) for _, f in one) == sorted([a for a in range(6, 16) if a not in (9, 10)] * 2)
    assert names(two) == {"dyntrace:call_exit": 41}
    assert len({f["vtid"] for _, f in two}) == 3
    assert {int(f["ip"], 0) for _, f in two} == {target.address}
    tracer.end()
    assert "dyntrace" not in lttng("list", "--userspace")


def test_silent_without_a_session(lttng, processes, build, scratch, target):
    """No event fires while no session is started, and each session has the hits of its time."""
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo")
    target.do(10)
    lttng.create("dyntrace:call_entry", start=False)
    target.do(10)
    lttng("start", "test")
    target.do(7)
    events = lttng.stop()
    target.do(10)
    assert len(events) == 15
    assert harness.hits(tracer.end(), "call") == 15  # handed on


@pytest.mark.parametrize("buffers", ["--buffers-pid", "--buffers-uid"])
@pytest.mark.parametrize("words", [["-n", "call"], []])
def test_again_in_a_session_that_goes_on(lttng, processes, build, scratch, target, buffers, words):
    """(G2) An event of an earlier dyntrace that has left: the session records it again."""
    lttng("create", "test", "--output=/dev/shm/test")
    lttng("enable-channel", "--userspace", "-s", "test", buffers, "c")
    lttng("enable-event", "--userspace", "-s", "test", "-c", "c", "dyntrace*")
    lttng("start", "test")
    for count in (1, 2, 3):
        tracer = Tracer(processes, build, scratch, target.pid, *words, "--function", "foo")
        target.do(count)
        assert re.search(rf"^ *{2 * count + 1}  \w+$", tracer.end(), re.MULTILINE)
    name = "dyntrace:call_entry" if words else "dyntrace_lttng:function_entry"
    assert names(lttng.stop()) == {name: 3 + 5 + 7}


def test_started_command(lttng, processes, build, scratch, program):
    """From its first own instruction on; its exit status is ours."""
    lttng.create("dyntrace:*")
    result = subprocess.run(lttng.inside(os.path.join(build, "dyntrace"), "trace", "--tracer", "lttng", "-n", "call", "--function",
                                         "foo", "--", program, 25), env=lttng.env, cwd=scratch, capture_output=True, text=True)
    assert result.returncode == 3, result.stderr
    assert names(lttng.stop()) == {"dyntrace:call_entry": 51}
    assert os.listdir(scratch) == []


def test_fork(lttng, processes, build, scratch, target):
    """A forked child is an application of its own."""
    lttng.create("dyntrace:call_entry", start=False)
    lttng("add-context", "--userspace", "-s", "test", "-t", "vpid")
    lttng("start", "test")
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo")
    target.do("f")
    target.do(1)
    tracer.end()
    by_pid = collections.Counter(f["vpid"] for _, f in lttng.stop())
    assert by_pid.pop(str(target.pid)) == 3
    assert list(by_pid.values()) == [5]


def test_snapshot(lttng, processes, build, scratch, target):
    lttng.create("dyntrace:*", more=["--snapshot", "--output=/dev/shm/test"])
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo")
    target.do(30)
    lttng("snapshot", "record", "-s", "test")
    tracer.end()
    assert len(lttng.read("/dev/shm/test")) == 61


def test_live_over_relayd(lttng, processes, build, scratch, target):
    """babeltrace2 reads from a relay daemon while it is recorded."""
    ports = [5442, 5443, 5444]
    relay = processes.start(lttng.inside("lttng-relayd", "-C", f"tcp://127.0.0.1:{ports[0]}", "-D", f"tcp://127.0.0.1:{ports[1]}", "-L",
                                         f"tcp://127.0.0.1:{ports[2]}", "-o", "/dev/shm/relay"), env=lttng.env,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"net://127.0.0.1:{ports[0]}:{ports[1]}"
    until(lambda: listens(relay, ports), "relayd")
    lttng.create("dyntrace:*", more=["--live=200000", f"--set-url={url}"])
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo", "-e")
    target.do(1)  # so that there is something to attach to
    host = os.uname().nodename
    reader = processes.start(lttng.inside("babeltrace2", "--no-delta", "--clock-seconds", "--input-format=lttng-live",
                                          f"net://127.0.0.1:{ports[2]}/host/{host}/test"), env=lttng.env,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    seen = []
    while not select.select([reader.stdout], [], [], 0.1)[0]:  # what comes before it has attached is missing
        target.do(1)
    target.do(40)  # this comes behind
    while len(seen) < 2 * 81:
        line = reader.stdout.readline()
        assert line
        if "dyntrace:call" in line:
            seen.append(line)
    events = parse("".join(seen))
    assert {name for name, _ in events} == {"dyntrace:call_entry", "dyntrace:call_exit"}
    tracer.end()
    lttng("destroy", "test")


def test_as_it_was_but_for_the_library(lttng, processes, build, scratch, target):
    """(G2) Patched text, our descriptors and the agent's memory are gone; the loaded library stays."""
    before = Snapshot(target.pid)
    for _ in range(3):
        tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo", "-e")
        target.do(5)
        assert "stays" not in tracer.end()
    maps = open(f"/proc/{target.pid}/maps").read()
    assert "dyntrace-code" not in maps and "dyntrace-pool" not in maps and "dyntrace-counts" not in maps
    assert "libdyntrace-lttng.so" in maps
    assert not [start for start, code in __import__("harness").text(target.pid).items()
                if before.text.get(start, code) != code]
    until(lambda: "dyntrace-lttng" not in threads(target.pid), "the library's thread to be gone")
    target.do(5)


def threads(pid):
    """The names of the threads. A thread may end meanwhile."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{tid}/comm") as file:
            found.append(file.read().strip())
    return found


def test_target_with_events_of_its_own(lttng, processes, build, scratch, tmp_path):
    path = build_small(tmp_path / "own", 'for (int i = 0; i < 10; i++) { lttng_ust_tracef("own %d", i); foo(i); }',
                       "-llttng-ust", "-ldl", include="#include <lttng/tracef.h>\n")
    target = Target(lttng, processes, path)
    lttng.create("lttng_ust_tracef:*", "dyntrace:*")
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo")
    target.do(1)
    tracer.end()
    target.do(1)
    assert names(lttng.stop()) == {"lttng_ust_tracef:event": 20, "dyntrace:call_entry": 10}


@pytest.mark.parametrize("name", ["hello_static", "hello_musl"])
def test_no_shared_glibc_is_refused(lttng, build, scratch, name):
    path = os.path.join(build, "tests", "programs", name)
    if not os.path.exists(path):
        pytest.skip(f"{name} isn't built")
    result = subprocess.run([os.path.join(build, "dyntrace"), "trace", "--tracer", "lttng", "--function", "main", "--", path],
                            cwd=scratch, capture_output=True, text=True, timeout=20)
    assert result.returncode == 125
    assert "can't load libraries: it has no glibc as a shared library" in result.stderr


@pytest.mark.parametrize("words, said", [
    (["--function", "foo", "-t", "tid"], "name them (-n NAME)"),
    (["--probe", "malloc+4@libc.so.6"], "only at the start of functions that it exports"),
    (["--function", "_dl_catch_error@ld-linux-x86-64.so.2"], "can't be used in the loader"),
])
def test_refusals(lttng, build, scratch, program, words, said):
    result = subprocess.run([os.path.join(build, "dyntrace"), "trace", "--tracer", "lttng", *words, "--", str(program), "1"],
                            cwd=scratch, capture_output=True, text=True, timeout=20)
    assert said in result.stderr
    assert result.returncode in (2, 125)
