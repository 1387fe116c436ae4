"""Tracepoints changed at random, through the daemon, in a busy redis: tracepoints that stay count every hit, whatever
happens beside them; afterwards redis is as before."""
import collections
import random
import subprocess
import threading

from harness import Snapshot

STEPS = 12
REQUESTS = 800
BESIDE = ["processCommand", "call", "lookupKeyReadWithFlags", "dictFind", "addReply", "createStringObject", "zmalloc",
          "zfree", "setGenericCommand", "processMultibulkBuffer", "_addReplyToBufferOrList", "resetClient"]
CONTEXTS = ["tid", "reg:rsp", "cpu", "comm"]


def calls(redis, command):
    """The number of calls by redis's own count."""
    line = redis.info("commandstats").get(f"cmdstat_{command}", "calls=0,")
    return int(line.split(",")[0].removeprefix("calls="))


def event_names(path):
    """The number of events per name in babeltrace2's output."""
    lines = subprocess.run(["babeltrace2", "--names=none", path], check=True, capture_output=True, text=True)
    assert lines.stderr == ""
    return collections.Counter(line.split(": ")[0].split()[-1] for line in lines.stdout.splitlines())


class Changer:
    """Makes one change after the other; each must succeed."""

    def __init__(self, daemon, pid, seed):
        self.daemon, self.pid, self.random = daemon, pid, random.Random(seed)
        self.there = {}  # name: its contexts

    def change(self):
        name = self.random.choice(BESIDE)
        where = f"{self.pid}:{name}"
        if name not in self.there:
            words = self.random.choice([[], ["-e"]])
            assert self.daemon.add(where, *words) == name
            self.there[name] = []
            return
        what = self.random.choice(["rm", "enable", "disable", "add-context"])
        if what != "add-context":
            self.daemon(what, where)
        elif len(self.there[name]) < len(CONTEXTS):
            self.there[name].append(CONTEXTS[len(self.there[name])])
            self.daemon("add-context", "-u", "-e", name, "--pid", self.pid, "-t", self.there[name][-1])
        if what == "rm":
            del self.there[name]


def test_redis_stays_exact_beside_random_changes(daemon, redis):
    redis.benchmark(requests=100)
    before = Snapshot(redis.pid)
    daemon.attach(redis.pid)
    start_get, start_set = calls(redis, "get"), calls(redis, "set")
    daemon.add(f"{redis.pid}:getCommand", "-e")
    daemon.add(f"{redis.pid}:setCommand")
    changer = Changer(daemon, redis.pid, seed=random.randrange(1 << 30))
    for _ in range(STEPS):
        load = threading.Thread(target=redis.benchmark, kwargs={"requests": REQUESTS, "clients": 3})
        load.start()
        for _ in range(5):
            changer.change()
        load.join()
    gets, sets = calls(redis, "get") - start_get, calls(redis, "set") - start_set
    assert gets == sets == STEPS * REQUESTS
    hits = daemon.hits(redis.pid)
    assert (hits["getCommand"], hits["setCommand"]) == (gets, sets)
    assert set(hits) == {"getCommand", "setCommand", *changer.there}
    path = daemon.trace_of(redis.pid)
    daemon("detach", redis.pid)
    names = event_names(path)
    assert names["getCommand_entry"] == names["getCommand_exit"] == gets
    assert names["setCommand"] == sets
    before.assert_unchanged(busy=True)
    assert redis.cli("ping") == "PONG"


def test_an_empty_session_is_no_trace_and_stop_means_stop(daemon, redis):
    daemon.attach(redis.pid)
    redis.benchmark(requests=200)
    assert not any("trace" in one for one in daemon.json("list-processes"))
    daemon("stop", redis.pid)
    daemon.add(f"{redis.pid}:getCommand", "-e")
    redis.benchmark(requests=200)
    assert daemon.hits(redis.pid) == {"getCommand": 0}
    daemon("start", redis.pid)
    redis.benchmark(requests=300, tests="get")
    daemon("stop", redis.pid)
    redis.benchmark(requests=200)
    assert daemon.hits(redis.pid) == {"getCommand": 300}
    path = daemon.trace_of(redis.pid)
    daemon("detach", redis.pid)
    assert event_names(path) == {"getCommand_entry": 300, "getCommand_exit": 300}


def test_snapshots_beside_the_trace(new_daemon, redis):
    daemon = new_daemon("--mode", "overwrite", "--buffer-size", "4M").start()
    daemon.attach(redis.pid)
    assert daemon.fails("snapshot", redis.pid) == \
        f"process {redis.pid} has no tracepoint yet: no snapshot to take"
    daemon.add(f"{redis.pid}:getCommand")
    redis.benchmark(requests=500, tests="get")
    assert daemon.hits(redis.pid) == {"getCommand": 500}
    first = daemon("snapshot", redis.pid).stdout.rstrip("\n")
    redis.benchmark(requests=300, tests="get")
    second = daemon("snapshot").stdout.rstrip("\n")
    path = daemon.trace_of(redis.pid)
    assert (first, second) == (f"{path}.snapshot-1", f"{path}.snapshot-2")
    daemon("detach", redis.pid)
    assert [event_names(one) for one in (first, second, path)] == \
        [{"getCommand": 500}, {"getCommand": 800}, {"getCommand": 800}]


def test_snapshots_are_for_overwrite_mode(daemon, redis):
    daemon.add(f"{redis.pid}:getCommand")
    assert daemon.fails("snapshot", redis.pid) == \
        f"process {redis.pid} is recorded as it runs (snapshots need overwrite mode: detach it, " \
        f"then 'dyntrace attach --mode overwrite {redis.pid}')"
