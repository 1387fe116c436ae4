"""Text that isn't ours (names of processes, files, symbols, tracepoints, strings) is escaped wherever it is printed.

First, the tree: all printing goes through few functions that escape. Then, programs with hostile names under all
commands: no byte of the output acts on a terminal or makes a line of its own, and JSON stays JSON.
"""
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# ---- the tree ------------------------------------------------------------------------------------

PRINTING = re.compile(r"\b(v?f?printf|v?dprintf|puts|fputs|fputs_unlocked|putchar|fputc|putc|perror|fwrite|fwrite_unlocked|"
                      r"syslog|psignal|err|errx|warn|warnx|error)\s*\(")
WRITING = re.compile(r"\b(write|writev|pwrite|send|sendto)\s*\(\s*(STD(OUT|ERR)_FILENO|[12])\b")
PRINTERS = {
    "src/cli/dyntrace.c",  # cli_print, cli_print_error, cli_note: escape every string
    "src/cli/top/top_terminal.c",  # the screen of top: lines of top_view.c, which is checked below
    "src/options/table_text.c",  # text_flush; what text holds is checked below
    "src/cli/view/view_reader.c",  # passes the same text on from its child
    "src/cli/export/export_perfetto.c",  # protobuf: lengths instead of quotes, and no terminal
    "src/cli/report/page_columns.c",  # base64
    "src/control/ctf/read/trace_copy.c",  # the metadata of a trace, which is no text for people
    "src/options/help.c", "src/options/man.c",  # texts of our own tables
    "src/control/prototypes/make_prototypes.c",  # a program of the build
    "src/daemon/dyntraced.c",  # an error, which escapes its strings, and the version
}
UNPRINTED = {
    "src/cli/daemon/lttng_session.c",  # lttng's answer, which cmd_enable_event.c prints by cli_print
    "src/options/lttng_options.c",  # the argument of a tracer, which a request carries
    "src/options/prototype_options.c",  # declarations, which the parser reads
    "src/options/options.c",  # choices of our own tables
}
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


def code(path):
    """The file without comments."""
    with open(os.path.join(ROOT, path)) as file:
        return re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), file.read(), flags=re.DOTALL)


def sources(*folders):
    for folder in folders:
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            yield from (os.path.relpath(os.path.join(top, name), ROOT) for name in names if name.endswith(".c"))


def calls(text, function):
    """The arguments of every call, as text."""
    for found in re.finditer(rf"\b{function}\(", text):
        depth, at, inside = 1, found.end(), False
        while depth:
            if text[at] == '"' and text[at - 1] != "\\":
                inside = not inside
            depth += 0 if inside else (text[at] == "(") - (text[at] == ")")
            at += 1
        yield text[found.end():at - 1]


def is_own(argument):
    """Is it a literal, or a choice between literals?"""
    bare = STRINGS.sub("", argument)
    ends = re.split(r"[:]", bare)
    return all(not re.sub(r".*\?", "", end, flags=re.DOTALL).strip() for end in ends)


def test_few_functions_print():
    found = []
    for path in sources("src/cli", "src/options", "src/daemon", "src/client", "src/api", "src/control"):
        if path in PRINTERS:
            continue
        for number, line in enumerate(code(path).splitlines(), 1):
            bare = STRINGS.sub('""', line)
            if PRINTING.search(bare) or WRITING.search(bare):
                found.append(f"{path}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def test_text_is_escaped_or_ours():
    """In the programs that print: text_add gets literals, strbuf_add too, strbuf_printf isn't used."""
    found = []
    for path in sources("src/cli", "src/options", "src/control/lines"):
        if path in PRINTERS:
            continue
        text = code(path)
        found += [f"{path}: text_add({words})" for words in calls(text, "text_add") if not is_own(words.split(",", 1)[1])]
        if path in UNPRINTED:
            continue
        found += [f"{path}: strbuf_add({words})" for words in calls(text, "strbuf_add")
                  if not is_own(words.split(",", 1)[1].rsplit(",", 1)[0])]
        found += [f"{path}: strbuf_printf({words})" for words in calls(text, "strbuf_printf")]
    assert not found, "\n".join(found)


def test_the_check_sees():
    assert is_own(' "a"') and is_own(' is_json ? "a" : "b"') and is_own(' a ? "x" : b ? "y" : "z"')
    assert not is_own(" name") and not is_own(' name ? name : ""') and not is_own(' a ? "x" : b') and not is_own(' "a" b')
    assert list(calls('f(a, "(", g(b)); f(c)', "f")) == ['a, "(", g(b)', "c"]
    assert PRINTING.search('	fprintf(stderr, "%s", name);') and not PRINTING.search("snprintf(to, 3, 4)")


# ---- programs with hostile names ----------------------------------------------------------------

# A terminal's title, a bell, a line of its own, a C1 control, text from right to left, no UTF-8.
EVIL = b"\x1b]0;t\x07\n\xc2\x9b\xe2\x80\xae\xff\"\\"
NAME = b"\x1b[2J\x07\n\xc2\x9b\xe2\x80\xae\xff"  # of a process: 15 bytes at most
SYMBOL = b"s\xc2\x9b\xe2\x80\xae\xfe"  # one with a byte below space counts as no name
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
static const char evil[] = EVIL;
enum mood { GOOD, BAD };
__attribute__((noinline)) int foo(const char *text, enum mood mood) { __asm__ volatile("" : : "r"(text)); return mood; }
int evil_function(int n) __asm__(SYMBOL);
__attribute__((noinline)) int evil_function(int n) { __asm__ volatile(""); return n + 1; }
int main(int argc, char **argv)
{
	char word[16];
	prctl(PR_SET_NAME, NAME);
	if (write(1, "r", 1) != 1) return 1;
	while (argc < 2 && fgets(word, sizeof(word), stdin)) { foo(evil, BAD); evil_function(1); if (write(1, "d", 1) != 1) return 1; }
	if (argc > 1) { foo(evil, BAD); evil_function(1); }
	return 0;
}
"""


def c_string(data):
    return '"' + "".join(f"\\{byte:03o}" for byte in data) + '"'


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A program in a file with a hostile name, with a symbol of a hostile name."""
    folder = os.fsencode(str(tmp_path_factory.mktemp("evil")))
    plain = os.path.join(folder, b"plain")
    with open(plain + b".c", "w") as file:
        file.write(SOURCE.replace("EVIL", c_string(EVIL), 1).replace("SYMBOL", '"SYMBOL_OF_TEN_"').replace("NAME)", c_string(NAME) + ")"))
    subprocess.run(["gcc", "-O1", "-g", "-o", plain, plain + b".c"], check=True)
    with open(plain, "rb") as file:
        data = file.read()
    assert b"SYMBOL_OF_TEN_\0" in data
    name = SYMBOL
    path = os.path.join(folder, b"e" + EVIL.replace(b"/", b""))
    with open(path, "wb") as file:
        file.write(data.replace(b"SYMBOL_OF_TEN_\0", name.ljust(14, b"z") + b"\0"))
    os.chmod(path, 0o755)
    return path


def check(output, lines=None):
    """Nothing in it acts on a terminal, and hostile text makes no line."""
    text = output.decode("utf-8")  # valid, too
    assert not ACTS.search(text), repr(ACTS.search(text)[0]) + " in " + repr(text)
    if lines is not None:
        assert text.count("\n") == lines, repr(text)
    return text


def run(build, *words, **options):
    done = subprocess.run([os.path.join(build, "dyntrace"), *words], capture_output=True, timeout=120, **options)
    check(done.stdout)
    check(done.stderr)
    return done


class Running:
    def __init__(self, processes, path):
        self.process = processes.start_raw([path])
        self.pid = self.process.pid
        assert self.process.stdout.read(1) == b"r"

    def round(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.read(1) == b"d"


@pytest.fixture
def running(processes, evil):
    def start_raw(command):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        processes.started.append(process)
        return process
    processes.start_raw = start_raw
    return Running(processes, evil)


def test_without_a_daemon(build, scratch, evil, running):
    assert b"\\x1b" in run(build, "list-symbols", evil).stdout
    assert rb"s\xc2\x9b\xe2\x80\xae\xfe" in run(build, "list-symbols", "-a", str(running.pid)).stdout
    for words in (["list-symbols", "-a"], ["list-symbols"]):
        names = [one["name"] for one in json.loads(run(build, *words, "--json", evil).stdout)]
        assert SYMBOL.decode("utf-8", "replace").ljust(13, "z")[:4] in [name[:4] for name in names]
    run(build, "list-markers", evil)
    json.loads(run(build, "list-markers", "--json", evil).stdout)
    for words in (["coverage"], ["coverage", "--json"]):
        done = run(build, *words, evil)
        if "--json" in words:
            assert [json.loads(line) for line in done.stdout.splitlines()]
    assert run(build, "list-symbols", evil, b"no" + EVIL).returncode == 1
    assert run(build, "trace", "--explain", "foo", "--", evil, "1", cwd=scratch).returncode == 0
    assert b" foo\n" in run(build, "top", "--function", "*", "--", evil, "1", cwd=scratch).stdout
    for key in ("str(arg0)", "$comm"):
        assert b"\\x1b" in run(build, "top", "--function", "foo", "--by", key, "--", evil, "1", cwd=scratch).stdout
    for words in ([EVIL], ["list-symbols", EVIL], ["view", EVIL], ["trace", "--function", EVIL, "--", evil],
                  ["trace", "--" + "x" + "y", EVIL], ["trace", "-p", EVIL, "--function", "foo"], ["detach", EVIL],
                  ["trace", "--function", "foo", "--filter", EVIL, "--", evil], ["trace", "--tracer", EVIL, "--", evil],
                  ["coverage", EVIL], ["list-symbols", "--json", "-x" , EVIL], ["help", EVIL]):
        done = run(build, *words, cwd=scratch, stdin=subprocess.DEVNULL)
        assert done.returncode and done.stderr.startswith(b"dyntrace: ")
        if b"\n  " not in done.stderr:  # a filter's error shows the expression
            check(done.stderr, lines=1)


def test_traces(build, scratch, evil, running):
    """trace -p, its default directory, --print, log, view, view --json: the fields' values are exact in JSON."""
    base = [os.path.join(build, "dyntrace"), "trace", "--function", "*", "-t", "comm"]
    done = run(build, *base[1:], "--print", "--", evil, "1", cwd=scratch)
    assert done.returncode == 0 and b"foo_entry" in done.stdout and b"\\x1b]0;t\\x07\\n" in done.stdout
    trace, = os.listdir(scratch)
    check(os.fsencode(trace))
    line, = (line for line in run(build, "view", trace, cwd=scratch).stdout.splitlines() if b"foo_entry" in line)
    assert b"\\x1b]0;t\\x07\\n" in line
    events = [json.loads(line) for line in run(build, "view", "--json", trace, cwd=scratch).stdout.splitlines()]
    event, = (one for one in events if one["name"] == "foo_entry")
    assert event["fields"]["text"] == EVIL.replace(b"\xff", b"\\xff").decode()  # as the agent records it
    assert event["fields"]["comm"] == NAME.replace(b"\xff", b"\\xff").decode()
    done = run(build, "trace", "--tracer", "log", "--function", "*", "--", evil, "1", cwd=scratch)
    assert b"\\x1b]0;t" in done.stdout[1:]
    shutil.rmtree(os.path.join(scratch, trace))


def test_a_running_process(build, scratch, processes, running):
    """Its messages while it runs, and the summary."""
    tracer = subprocess.Popen([os.path.join(build, "dyntrace"), "trace", "-p", str(running.pid), "--function", "*", "-o", "e"],
                              cwd=scratch, stderr=subprocess.PIPE)
    processes.started.append(tracer)
    assert b"tracing \\x1b[2J\\x07\\n" in tracer.stderr.readline()
    running.round()
    tracer.send_signal(2)
    assert r"s\xc2\x9b\xe2\x80\xae\xfe" in check(tracer.communicate()[1])


def test_with_a_daemon(daemon, build, running, evil, scratch):
    pid = str(running.pid)

    def ask(*words, status=0):
        done = run(build, *words, env={**os.environ, "DYNTRACE_SOCKET": daemon.socket}, cwd=scratch)
        assert status is None or done.returncode == status, done
        return done

    daemon.targets.add(pid)
    watching = subprocess.Popen([os.path.join(build, "dyntrace"), "watch"], stdout=subprocess.PIPE,
                                env={**os.environ, "DYNTRACE_SOCKET": daemon.socket})
    until(lambda: f"pid={watching.pid} watch" in open(daemon.log, errors="replace").read(), "the watch to begin")
    ask("attach", pid)
    ask("add", f"{pid}:foo", "-f")
    ask("add", f"{pid}:*", "-f", status=None)
    named = ask("add", b"%d:foo" % running.pid, "-f", "-n", b"n" + EVIL, status=None)
    for words in (["list-processes"], ["list-tracepoints", pid], ["list-tracepoints", "-a", pid], ["status"],
                  ["list-symbols", pid], ["list-markers", pid]):
        ask(*words)
        json.loads(ask(*words, "--json").stdout)
    running.round()
    for words in (["add", b"%d:%b" % (running.pid, EVIL)], ["rm", b"%d:%b" % (running.pid, EVIL)], ["attach", EVIL],
                  ["enable", b"%d:%b" % (running.pid, EVIL)], ["load", pid, EVIL], ["list-tracepoints", EVIL],
                  ["add", f"{pid}:foo", "-t", EVIL], ["add", f"{pid}:foo", "--filter", EVIL], ["detach", EVIL],
                  ["add", f"{pid}:foo", "-n", "other", EVIL], ["watch", EVIL], ["snapshot", EVIL]):
        done = ask(*words, status=None)
        assert done.returncode and done.stderr.startswith(b"dyntrace: ")
        if b"\n  " not in done.stderr:
            check(done.stderr, lines=1)
    assert named.returncode
    ask("detach", pid)
    watching.terminate()
    seen = check(watching.communicate()[0])
    assert "attached" in seen and "\\x1b" in seen
    with open(daemon.log, "rb") as file:
        text = check(file.read())
    assert "\\x1b" in text and all(re.match(r"\d{4}-\d\d-\d\dT", line) for line in text.splitlines())
