"""What makes looking at a trace convenient on a terminal: a pager, a bar while a long trace is read, the command that looks at it."""
import os
import pty
import re
import subprocess

import pytest

from harness import on_a_terminal
from test_own_reader import CALLS, record


@pytest.fixture(name="trace")
def one_trace(dyntrace, program_path):
    return record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 30, 1)


def shown(text):
    return text.replace("\r\n", "\n")


@pytest.mark.parametrize("command, words", [("view", ["--lines"]), ("view", ["--tree"]), ("report", []), ("report", ["--by", "function"])])
def test_pager(dyntrace, trace, command, words):
    """$DYNTRACE_PAGER before $PAGER; never where the output is no terminal, with --no-pager, or on a dumb terminal."""
    plain = dyntrace(command, trace, *words).stdout
    env = {"NO_COLOR": "1", "PAGER": "sed s/^/theirs:/", "DYNTRACE_PAGER": "sed s/^/ours:/"}
    through = "".join(f"ours:{line}\n" for line in plain.splitlines())
    assert shown(on_a_terminal(dyntrace, trace, *words, command=command, **env)) == through
    assert shown(on_a_terminal(dyntrace, trace, *words, "--no-pager", command=command, **env)) == plain
    assert shown(on_a_terminal(dyntrace, trace, *words, command=command, **{**env, "TERM": "dumb"})) == plain
    assert shown(on_a_terminal(dyntrace, trace, *words, command=command, **{**env, "DYNTRACE_PAGER": "cat"})) == plain
    assert dyntrace(command, trace, *words, env={**os.environ, **env}).stdout == plain


def test_pager_of_others(dyntrace, trace):
    """$PAGER alone; its colours and the tree stay; a pager that ends early is no error."""
    tree = on_a_terminal(dyntrace, trace, DYNTRACE_PAGER="")
    assert "\x1b[" in tree and "top_" in tree
    assert shown(on_a_terminal(dyntrace, trace, DYNTRACE_PAGER="sed -n p")) == shown(tree)
    assert shown(on_a_terminal(dyntrace, trace, DYNTRACE_PAGER="head -n 1")) == shown(tree).split("\n")[0] + "\n"


def test_pager_and_errors(dyntrace, scratch):
    """Errors don't go through the pager, and its exit status is not ours."""
    env = {**os.environ, "TERM": "xterm", "DYNTRACE_PAGER": "cat > /dev/null; exit 9"}
    master, slave = pty.openpty()
    with open(master, "rb", buffering=0):
        result = subprocess.run([dyntrace.path, "report", "/no/such/trace"], env=env, stdin=subprocess.DEVNULL, stdout=slave,
                                stderr=subprocess.PIPE, text=True)
        os.close(slave)
    assert (result.returncode, result.stderr) == (1, "dyntrace: cannot open the trace '/no/such/trace': No such file or directory\n")


def test_progress(dyntrace, program_path, processes):
    """After a second, a bar on stderr; it is gone at the end. The output waits for its reader meanwhile."""
    trace = record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 20000, 1)
    env = {**{name: value for name, value in os.environ.items() if name != "NO_COLOR"}, "TERM": "xterm"}
    readers = []
    for words in (["export", trace, "--perfetto", "-"], ["export", trace, "--csv", "-"], ["view", trace], ["export", trace, "--speedscope", "-"]):
        master, slave = pty.openpty()
        readers.append((master, processes.start([dyntrace.path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave, env=env)))
        os.close(slave)
    for master, export in readers:
        check_bar(master, export)


def check_bar(master, export):
    with open(master, "rb", buffering=0) as screen:
        said = screen.read(4096)
        while said.count(b"%") < 3:
            said += screen.read(4096)
        whole = export.stdout.read()
        assert export.wait(timeout=60) == 0 and len(whole) > 1_000_000
        try:
            while data := screen.read(4096):
                said += data
        except OSError:
            pass
    assert re.fullmatch(rb"(\rreading \|#* *\| +\d+%)+\r\x1b\[K", said), said
    shares = [int(share) for share in re.findall(rb"(\d+)%", said)]
    assert shares == sorted(shares) and shares[0] < 100


def test_no_progress(dyntrace, trace):
    """A short one needs none; neither does a stderr that isn't a terminal."""
    assert dyntrace("report", trace).stderr == ""


def test_what_next(dyntrace, program_path, scratch):
    """trace ends with the command that looks at its trace; a name that a shell would misread is quoted."""
    for name, quoted in (("plain.d", "plain.d"), ("with space", "'with space'"), ("-dash", "./'-dash'"), ("a$b", "'a$b'")):
        errors = dyntrace("trace", f"--output={name}", "--function", "foo", "--", program_path("spin"), "--calls", 3).stderr
        assert errors.endswith(f"\nlook at it: dyntrace report {quoted}\n"), errors
        command = errors.splitlines()[-1].removeprefix("look at it: dyntrace ")
        assert "foo" in subprocess.run(f"{dyntrace.path} {command}", shell=True, cwd=scratch, capture_output=True, text=True, check=True).stdout
    assert "look at it" not in dyntrace("trace", "-q", "-o", "quiet", "--function", "foo", "--", program_path("spin"), "--calls", 3).stderr
