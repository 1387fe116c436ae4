"""dyntrace top: the screen by its bytes, as a terminal gets them; tables in a pipe; and how it ends."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

import pytest

from harness import Snapshot, die_with_parent, until
from test_daemon_keys import CALLS, SOURCE, compile_asked, target  # noqa: F401 (a fixture)

FUNCTIONS = "".join(f"int filler_{i}(int a) {{ return a * {i} + (int)sink; }}\n" for i in range(300))


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """With 300 functions that nobody calls."""
    return compile_asked(tmp_path_factory.mktemp("top"),
                         SOURCE.replace("static void *calls", FUNCTIONS + "static void *calls"))


class Screen:
    """A `dyntrace top` on a terminal."""

    def __init__(self, build, processes, *words, width=80, height=24, **env):
        self.master, slave = pty.openpty()
        self.resize(width, height)
        self.before = termios.tcgetattr(self.master)
        self.process = processes.start([os.path.join(build, "dyntrace"), "top", *map(str, words)], stdin=slave, stdout=slave,
                                       stderr=subprocess.PIPE, env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **env})
        os.close(slave)
        self.bytes = b""

    def resize(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def lines(self):
        """The last whole screen."""
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.bytes += os.read(self.master, 65536)
            except OSError:
                break
        frames = self.bytes.split(b"\33[H")
        text = frames[-1].decode(errors="replace") if len(frames) > 1 else ""
        return [re.sub("\33\\[[0-9;?]*[A-Za-z]", "", line).strip("\r") for line in text.split("\r\n")]

    def until(self, *words):
        """Waits for a screen with all these words, and gives it: the next one may be half there already."""
        def shown():
            lines = self.lines()
            return all(word in "\n".join(lines) for word in words) and lines
        found = until(lambda: self.process.poll() is not None or shown(), f"{words} on the screen")
        assert self.process.poll() is None, self.process.stderr.read()
        return found

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """After what ends it: exit status 0, and the terminal as it was."""
        assert self.process.wait(timeout=30) == 0, self.process.stderr.read()
        self.lines()
        assert self.bytes.endswith(b"\33[?25h\33[?1049l") and b"\33[?1049h\33[?25l" in self.bytes
        assert termios.tcgetattr(self.master) == self.before
        assert self.process.stderr.read() == b""
        os.close(self.master)


def test_the_screen_and_its_keys(build, processes, target):
    target.round()  # glibc keeps the thread's stack
    before = Snapshot(target.pid)
    screen = Screen(build, processes, target.pid, "--each", "100ms")
    screen.until("q quit", "no calls yet")
    target.round()
    lines = screen.until(f"{2 * CALLS // 2 + 2} hits", "work")  # work, calls and its thread
    assert len(lines) <= 24 and all(len(line) <= 80 for line in lines) and "*total%" in lines[2]
    screen.press("h")
    screen.until("100% is one thread all the")
    screen.press("q")  # any key leads back
    screen.until("q quit")
    screen.press("<")
    screen.until("*hits/s")
    screen.press("/wor")
    screen.until("/wor (1)")
    screen.press("\r")
    screen.until("q quit", "/wor (1)")
    screen.press("\r")
    screen.until("Esc or Enter: back", "p99", "|", "no calls since")
    target.round()
    screen.until("caller", "calls ")
    screen.press("\33")
    screen.until("q quit", "2404 hits")
    screen.press("e")
    screen.until("work (off)")
    target.round()
    screen.press("e ")
    screen.until("work", "paused")
    screen.resize(60, 10)
    until(lambda: screen.lines() and len(screen.lines()) <= 10 and max(map(len, screen.lines())) <= 60, "a smaller screen")
    screen.press("q")
    screen.end()
    before.assert_unchanged()
    target.round()


@pytest.mark.parametrize("how", ["ctrl-c", "term", "closed"])
def test_how_it_ends(build, processes, target, how):
    before = Snapshot(target.pid)
    screen = Screen(build, processes, target.pid, "--function", "work", "--each", "100ms", LC_ALL="C")
    screen.until("q quit")
    if how == "closed":
        os.close(screen.master)
        assert screen.process.wait(timeout=30) == 0
    else:
        screen.process.send_signal(signal.SIGINT if how == "ctrl-c" else signal.SIGTERM)
        screen.end()
    before.assert_unchanged()


@pytest.mark.parametrize("words", [["top"], ["trace", "--tracer", "count", "--by", "$tid", "-p"]])
def test_a_reader_that_goes(build, processes, target, words):
    """As in "dyntrace top PID | head": the target is left as it was."""
    before = Snapshot(target.pid)
    process = processes.start([os.path.join(build, "dyntrace"), *words, str(target.pid), "--function", "work", "--each", "10ms"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=50) == 0
    before.assert_unchanged()


def test_kill_9_leaves_nothing_for_the_next(build, processes, target):
    screen = Screen(build, processes, target.pid, "--function", "work", "--each", "100ms")
    screen.until("q quit")
    screen.process.kill()
    screen.process.wait()
    os.close(screen.master)
    target.round()
    before = subprocess.run([os.path.join(build, "dyntrace"), "top", target.pid.__str__(), "--batch", "1", "--each", "10ms"],
                            capture_output=True, text=True, timeout=50)
    assert before.returncode == 0 and "functions" in before.stdout, before.stderr


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}])
def test_tables_where_nothing_can_be_drawn(build, scratch, asked, env):
    """One table per interval, and one at the end; no escape codes."""
    command = [os.path.join(build, "dyntrace"), "top", "--each", "20ms", "--function", "work", "--function", "calls", "--", asked]
    done = subprocess.run(command, input="xx", capture_output=True, text=True, timeout=50, cwd=scratch, env={**os.environ, **env},
                          preexec_fn=die_with_parent)
    assert done.returncode == 0 and "\33" not in done.stdout, done.stderr
    heads = re.findall(r"functions, (\d+) called, (\d+) hits", done.stdout)
    assert heads[-1] == ("2", str(2 * CALLS + 4))  # work; calls, of two threads
    assert re.search(r" work$", done.stdout, re.M)


def test_by_key(build, scratch, asked):
    done = subprocess.run([os.path.join(build, "dyntrace"), "top", "--function", "work", "--by", "path", "--top", "3", "--", asked], input="x",
                          capture_output=True, text=True, timeout=50, cwd=scratch, preexec_fn=die_with_parent)
    assert done.returncode == 0 and f"5 keys, {CALLS} hits" in done.stdout and "(2 more rows" in done.stdout, done.stdout + done.stderr


def test_target_with_p(build, target):
    """As trace and top(1) take it."""
    done = subprocess.run([os.path.join(build, "dyntrace"), "top", "-p", str(target.pid), "--batch", "1"], capture_output=True, text=True,
                          timeout=50, preexec_fn=die_with_parent)
    assert done.returncode == 0 and "functions, " in done.stdout, done.stderr


def test_what_is_refused(build):
    def fails(*words):
        done = subprocess.run([os.path.join(build, "dyntrace"), "top", *words], capture_output=True, text=True, timeout=50)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        return done.stderr
    assert "give TARGET" in fails() and "give TARGET" in fails("--")
    assert "one TARGET, not '2'" in fails("1", "2") and "one TARGET, not '2'" in fails("-p", "1", "2")
    assert "--batch: 'x'" in fails("1", "--batch", "x")
    assert "--of: needs --by" in fails("1", "--of", "self")
