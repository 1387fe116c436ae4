"""The zoo: programs of many languages, whose runtimes find frames, catch faults, switch stacks and collect garbage in ways of
their own, do the same traced as untraced.

Each is run with every function of it and of its runtime probed; with exits; with exits counted; with strings and backtraces, which
the agent gathers by plain loads with a handler in front of the program's own; and it is attached to and left twenty times, by a
dyntrace that ends in all ways, kill -9 among them. Compared: output, exit status, what is mapped, which signals are handled, and
counts where the program text tells them. ZOO_SEED repeats a run, ZOO_WAY has all visits trace this way. DYNTRACE_TORTURE
multiplies the number of turns."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from harness import hits, maps, status, text, until

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "zoo"))
from animals import ANIMALS  # noqa: E402
from ways import WAYS  # noqa: E402

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))
SEED = int(os.environ.get("ZOO_SEED") or random.randrange(10**6))
VISITS = [os.environ["ZOO_WAY"]] if "ZOO_WAY" in os.environ else list(WAYS)
ROUNDS = 3
TURNS = max(int(20 * FACTOR), 4)


class Cage:
    """An animal, built in a folder of its own."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.animal = ANIMALS[name]
        self.env = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": folder, **self.animal.env}
        shutil.copy(os.path.join(HERE, "zoo", self.animal.text), folder)
        for command in self.animal.build:
            subprocess.run(command, cwd=folder, env=self.env, check=True, capture_output=True)
        program = shutil.which(os.path.normpath(os.path.join(folder, self.animal.command[0]))
                               if self.animal.command[0].startswith(".") else self.animal.command[0])
        assert program, f"{self.animal.command[0]} isn't installed: .ci/install-packages torture"
        self.command = [program, *self.animal.command[1:]]

    def run(self, rounds, before=(), seconds=900):
        return subprocess.run([*before, *self.command, str(rounds)], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=seconds)


@pytest.fixture(scope="module")
def cages(tmp_path_factory):
    """Builds each animal once."""
    built = {}

    def get(name):
        if name not in built:
            built[name] = Cage(name, str(tmp_path_factory.mktemp(name.replace("+", "p"))))
        return built[name]
    return get


def what(animal, how):
    """Node's 77,000 functions with all values at entry and exit don't fit into 256 MiB of trampolines."""
    own = "_ZN4node*" if animal.command[0] == "node" and how == "gathered-exits" else "*"
    return [word for glob in (own, *animal.traced) for word in ("--function", glob)]


@pytest.mark.limit(900)
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name", ANIMALS)
def test_same_output(dyntrace, cages, name, how):
    cage = cages(name)
    expected = cage.run(ROUNDS)
    assert expected.returncode == 0 and expected.stdout.count("\n") == ROUNDS, expected.stderr
    where = [] if how == "counted" else ["-o", dyntrace.new_output()]
    late = ["--wait"] if cage.animal.traced else []
    result = cage.run(ROUNDS, [dyntrace.path, "trace", *where, *WAYS[how], *what(cage.animal, how), *late, "--all-rows", "--wide", "--"])
    print(result.stderr[:3000])
    assert (result.returncode, result.stdout) == (0, expected.stdout)
    if how == "counted":
        found = hits(result.stderr)
        assert sum(found.values()) > 0
        for function, calls in cage.animal.calls.items():
            assert found[function] == calls * ROUNDS


# ---- attached to and left ----------------------------------------------------------------------------

def files_mapped(pid):
    """What is mapped of programs and libraries, which doesn't go."""
    lines = [line for line in maps(pid) if len(line.split()) > 5 and line.split()[5].startswith("/")]
    code = {line.split()[5] for line in lines if is_elf(line.split()[5])}
    return [line for line in lines if line.split()[5] in code]


def is_elf(path):
    """Heaps that a runtime maps from a file, and protects piece by piece, are the program's own affair."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def handled(pid):
    """Which signals of those that a tracer needs have a handler."""
    return int(status(pid, "SigCgt"), 16) & sum(1 << number - 1 for number in (signal.SIGTRAP, signal.SIGBUS, signal.SIGSEGV))


class Visitor:
    """Comes and goes as a dyntrace, in all ways."""

    def __init__(self, dyntrace, cage, process, chance):
        self.dyntrace, self.cage, self.process, self.chance = dyntrace, cage, process, chance
        self.maps = files_mapped(process.pid)
        starts = {int(line.split("-")[0], 16) for line in self.maps}
        self.text = {start: code for start, code in text(process.pid).items() if start in starts}
        self.handled = handled(process.pid)
        self.stays = False  # in a process with frames that vanished, as docs/limits.md says

    def turn(self, meanwhile=lambda: None, expected=None):
        """`meanwhile` gives what is expected also while it is traced."""
        refused = "-e" if getattr(self.cage.animal, "entries_only", False) else ""
        how = self.chance.choice([way for way in VISITS if refused not in WAYS[way]])
        where = [] if how == "counted" else ["-o", self.dyntrace.new_output()]
        visit = self.dyntrace.processes.start(
            [self.dyntrace.path, "trace", "-p", self.process.pid, *where, *WAYS[how], *what(self.cage.animal, how)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.cage.folder)
        if self.chance.random() < 0.5:
            time.sleep(self.chance.random())  # any moment will do
            visit.kill()
            visit.wait()
        else:
            until(lambda: visit.poll() is not None or self.is_placed(), "probes in the target")
            time.sleep(self.chance.random() * 0.3)
            assert meanwhile() == expected
            visit.send_signal(self.chance.choice([signal.SIGINT, signal.SIGTERM]))
            errors = visit.communicate(timeout=120)[1]
            self.stays |= "the agent stays" in errors
            # else than 0: it hadn't begun, or was still cleaning up behind a killed one
            assert visit.returncode in (0, 130, 143, -2, -15) or self.stays, errors
        visit.stderr.close()

    def is_placed(self):
        return any("memfd:dyntrace" in line for line in maps(self.process.pid))

    def clean(self):
        """Removes what a kill left; the target is as it was."""
        result = self.dyntrace("detach", self.process.pid, status=None, seconds=120)
        self.stays |= "the agent stays" in result.stderr
        assert result.returncode == 0 or "not traced" in result.stderr or self.stays, result.stderr
        pid = self.process.pid
        now = files_mapped(pid)
        assert self.stays or not [line for line in maps(pid) if "memfd:dyntrace" in line]
        assert [line for line in self.maps if line not in now] == []
        code = text(pid)
        assert [hex(start) for start, before in self.text.items() if code.get(start) != before] == []
        assert status(pid, "TracerPid") == "0"
        assert self.stays or handled(pid) == self.handled


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", ANIMALS)
def test_attached_to_and_left(dyntrace, cages, processes, name):
    print(f"ZOO_SEED={SEED}")
    chance = random.Random(f"{SEED} {name}")
    cage = cages(name)
    stop = os.path.join(cage.folder, "stop")
    expected = cage.run(1).stdout
    output = os.path.join(cage.folder, "output")
    with open(output, "w") as file:
        process = processes.start([*cage.command, "1000000"], cwd=cage.folder, env=cage.env, stdin=subprocess.DEVNULL,
                                  stdout=file, stderr=subprocess.DEVNULL)

    def rounds():
        with open(output) as file:
            return file.read().count("\n")
    until(lambda: rounds() > 1 or process.poll() is not None, "the first rounds")
    visitor = Visitor(dyntrace, cage, process, chance)
    try:
        for turn in range(TURNS):
            visitor.turn()
            assert process.poll() is None, f"turn {turn}: the program ended, {process.returncode}"
            if chance.random() < 0.5:
                visitor.clean()
        visitor.clean()
        before = rounds()
        until(lambda: rounds() > before + 1 or process.poll() is not None, "two more rounds")
    finally:
        open(stop, "w").close()
    try:
        assert process.wait(timeout=120) == 0
        with open(output) as file:
            lines = file.read()
        assert set(lines.splitlines(True)) == {expected}
    finally:
        os.remove(stop)
