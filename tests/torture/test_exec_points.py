"""Rights end with execve (H33): a member's process executes a setuid program at each point of the daemon and of its workers, and at
random moments. DYNTRACE_TORTURE: the share of the time. DYNTRACE_SEED: the order."""
import contextlib
import os
import random
import signal
import time

import pytest
from daemon_harness import helpers
from exec_points import MEMBER, SCENES, WAYS, Turncoat, count_points, open_stage
from harness import until

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))
SEED = int(os.environ.get("DYNTRACE_SEED") or random.randrange(1 << 30))
SECONDS = 600 * FACTOR


@pytest.mark.parametrize("workers", ["member", "root"])
@pytest.mark.parametrize("scene", SCENES)
def test_at_every_point(build, processes, scratch, program_path, workers, scene):
    """In an order of chance, for SECONDS or until no point is left."""
    chance, end = random.Random(SEED), time.monotonic() + SECONDS
    with open_stage(workers, build, processes, scratch, program_path) as stage:
        points = list(range(1, count_points(stage, scene) + 1))
        count = len(points)
        chance.shuffle(points)
        while points and time.monotonic() < end:
            SCENES[scene](stage, points.pop(), chance.choice(WAYS))
            stage.end()
    print(f"{scene}, workers of {workers}: {count - len(points)} of {count} points, seed {SEED}")


def signal_workers(one, number):
    for worker in helpers("worker", one.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, number)


def mishap(stage, chance, one):
    """One of: a command, a death of the worker, a death of the supervisor, the execve."""
    # with --all-targets a member may record the setuid program, too
    commands = ("load", "call", "rm") if one.turned else ("load", "call", "rm", "add", "turn", "turn-while-it-stands")
    what = chance.choice((*commands, "kill-worker", "kill-supervisor"))
    if what == "load":
        stage.ask("load", one.pid, stage.library)
    elif what in ("add", "call"):
        words = ["call", f"{stage.library}:called"] if what == "call" else ["ctf"]
        stage.ask("add", f"{one.pid}:foo", "-n", f"{what}{chance.randrange(1000)}", *words)
    elif what == "rm":
        stage.ask("rm", f"{one.pid}:*")
    elif what == "kill-supervisor":
        stage.daemon.kill()
        stage.daemon.start()
    elif what == "kill-worker":
        signal_workers(one, signal.SIGKILL)
    else:
        if what != "turn":
            signal_workers(one, signal.SIGSTOP)
        os.write(one.command, b"x")
        one.turned = True
        if what != "turn":
            until(one.has_turned, "the setuid program to run")
            signal_workers(one, chance.choice((signal.SIGKILL, signal.SIGCONT)))
    return what


@pytest.mark.parametrize("workers", ["member", "root"])
def test_at_random_moments(build, processes, scratch, program_path, workers):
    chance, end, rounds = random.Random(SEED), time.monotonic() + SECONDS, 0
    with open_stage(workers, build, processes, scratch, program_path) as stage:
        while time.monotonic() < end:
            one = stage.one = Turncoat(processes, scratch, chance.choice(WAYS))
            one.turned = False
            stage.daemon.targets.add(str(one.pid))
            history = [mishap(stage, chance, one) for _ in range(chance.randrange(3, 9))]
            if not one.turned:
                os.write(one.command, b"x")
            until(one.has_turned, f"the setuid program to run ({history}, seed {SEED})")
            until(lambda: not [each for each in stage.daemon.json("list-processes") if each["pid"] == one.pid] and
                  not stage.has_journal() and not helpers("worker", one.pid), f"the journal to end ({history}, seed {SEED})")
            assert one.foreign_parts() == [], (history, SEED)
            assert [name for name in os.listdir(f"{scratch}/marks") if not name.endswith(f"-{MEMBER[0]}")] == [], (history, SEED)
            one.process.stdin.write("x\n")
            one.process.stdin.flush()
            assert one.process.stdout.read().startswith("ready\ninnocent ") and one.process.wait(20) == 0, (history, SEED)
            one.close()
            rounds += 1
    print(f"workers of {workers}: {rounds} rounds, seed {SEED}")
