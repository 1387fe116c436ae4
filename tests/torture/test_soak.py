"""Everything is killed at random, on real servers and on threads that come and go; every trace is read, every count
compared. DYNTRACE_TORTURE multiplies the number of turns."""
import os
import random
import signal
import subprocess
import time

import pytest
from harness import Snapshot, count_events, counts

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))
MODES = ["discard", "block"]


def turns(number):
    return max(int(number * FACTOR), 1)


def read(path):
    """(events, lost), also of a trace that a kill left with no file in it."""
    if not any(name.startswith("stream_") for name in os.listdir(path)):
        return 0, 0
    return count_events(path)


def test_controllers_killed_over_redis(dyntrace, redis):
    """Attach, kill -9 after a while, clean up; redis answers and is as it was, all traces can be read."""
    chance = random.Random(7)
    load = redis.load(clients=4)
    before = Snapshot(redis.pid)
    for turn in range(turns(40)):
        words = ["--function", "processCommand", "--mode", chance.choice(MODES), "--buffer-size", "1M"]
        tracing = dyntrace.start_trace(redis.pid, *words, *(["-e"] if turn % 4 == 0 else []))
        time.sleep(chance.random() * 0.3)  # any moment will do
        tracing.process.kill()
        tracing.process.communicate()
        read(tracing.output)
        time.sleep(chance.random() * 0.1)
        dyntrace("detach", redis.pid)
        before.assert_unchanged(busy=True)
        assert redis.process.poll() is None and load.poll() is None
        read(tracing.output)
    assert redis.cli("ping") == "PONG"


def test_controllers_killed_over_threads(dyntrace, program):
    """Recorded + lost = made, however often controllers died meanwhile."""
    chance = random.Random(11)
    for turn in range(turns(30)):
        target = program("spin", "--threads", 4, "--calls", 200_000, "--rounds", 1).wait_ready()
        tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", chance.choice(MODES), "--buffer-size",
                                       chance.choice(["1M", "8M"]))
        target.go()
        time.sleep(chance.random() * 0.05)
        tracing.process.kill()
        tracing.process.communicate()
        target.wait_ready()
        dyntrace("detach", target.pid)
        tracing.before.assert_unchanged()
        events, lost = read(tracing.output)
        assert events + lost == 800_000
        target.finish()


def test_targets_killed(dyntrace, program):
    """The written part can be read; it has no more events than calls were made."""
    chance = random.Random(13)
    for turn in range(turns(30)):
        target = program("churn", "--threads", 8, "--rounds", 1000, "--calls", 100).wait_ready()
        tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
        target.go()
        time.sleep(chance.random() * 0.3)
        target.process.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]))
        tracing.process.wait(timeout=30)
        assert tracing.process.returncode == 0
        events, lost = read(tracing.output)
        assert events + lost <= 800_000


def test_nginx(dyntrace, processes, scratch):
    """Workers are killed and started again by their master, which is traced with its children."""
    if not os.path.exists("/usr/sbin/nginx"):
        pytest.skip("no nginx")
    conf = os.path.join(scratch, "nginx.conf")
    with open(conf, "w") as file:
        file.write(f"""daemon off; pid {scratch}/pid; error_log {scratch}/error.log; worker_processes 2;
events {{ }} http {{ access_log off; server {{ listen unix:{scratch}/sock; location / {{ return 200 "hello"; }} }} }}""")
    server = processes.start(["/usr/sbin/nginx", "-c", conf, "-p", scratch], stderr=subprocess.DEVNULL)
    while not os.path.exists(f"{scratch}/sock"):
        time.sleep(0.01)
    tracing = dyntrace.start_trace(server.pid, "--function", "fork@libc.so.6")
    for _ in range(turns(10)):
        for child in open(f"/proc/{server.pid}/task/{server.pid}/children").read().split():
            os.kill(int(child), signal.SIGKILL)
            time.sleep(0.05)
    tracing.process.send_signal(signal.SIGINT)
    _, errors = tracing.process.communicate(timeout=30)
    assert tracing.process.returncode == 0, errors
    assert read(tracing.output)[1] == 0
    tracing.before.assert_unchanged(busy=True)
