"""dyntrace trace -p: running processes, which are left as they were found."""
import os
import signal
import subprocess
import sys
import time

import pytest

from harness import Program, Snapshot, Trace, comm_of, counts, maps, status, summary_rows, text, threads, until


def test_redis_counts_the_same(dyntrace, redis):
    """Attached and detached under load, and while it is quiet: the trace has exactly as many hits as redis has
    counted commands."""
    load = redis.load()
    until(lambda: redis.commands_processed() > 1000, "some load")
    first = dyntrace.start_trace(redis.pid, "--function", "processCommand")
    placed_at = redis.commands_processed()
    until(lambda: redis.commands_processed() > placed_at + 10000, "more load")
    assert len(first.stop().events) > 10000
    first.before.assert_unchanged(busy=True)
    load.terminate()
    load.wait()

    start = redis.commands_processed()
    tracing = dyntrace.start_trace(redis.pid, "--function", "processCommand", "--function", "call")
    redis.benchmark(requests=5000, clients=5)
    end = redis.commands_processed()  # the INFO that said so is in the trace, and not in `end`; with `start` it's the other way round
    trace = tracing.stop()
    tracing.before.assert_unchanged(busy=True)
    assert trace.lost == 0
    assert trace.names() == {"processCommand_entry": end - start, "call_entry": end - start}
    assert redis.cli("ping") == "PONG"


def test_redis_for_four_seconds(dyntrace, redis):
    """--for, with the count checked against redis: nothing else talks to it while the probes are in. On a busy machine the commands may
    take longer than that: then once more, with more time."""
    before = Snapshot(redis.pid)

    def is_probed():
        return text(redis.pid) != before.text

    def run(seconds):
        """Gives the commands by redis's count, and the trace; None: the probe was gone before the last command."""
        start, output = redis.commands_processed(), dyntrace.new_output()
        tracer = dyntrace.processes.start([dyntrace.path, "trace", "-p", redis.pid, "-o", output, "--function",
                                           "processCommand", "--for", seconds], stderr=subprocess.PIPE, text=True)
        until(lambda: is_probed() or tracer.poll() is not None, "the probe")
        redis.benchmark(requests=3000, clients=3, tests="get")
        end = redis.commands_processed()
        is_whole = is_probed()
        _, errors = tracer.communicate(timeout=30 + seconds)
        assert tracer.returncode == 0, errors
        before.assert_unchanged()
        return (end - start, Trace(output)) if is_whole else None

    commands, trace = next(filter(None, map(run, (4, 20, 100))))
    # The INFO that said `start` came before the probe; the one that said `end` is in the trace.
    assert len(trace.events) == commands
    assert trace.lost == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ends_cleanly_by_signal(dyntrace, program, number):
    spin = program("spin", "--threads", 3, "--calls", 1000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(spin.pid, "--function", "foo")
    spin.go().wait_ready()
    trace = tracing.stop(number)
    tracing.before.assert_unchanged()
    assert trace.names() == {"foo_entry": 3000}
    output = spin.finish()
    assert trace.per_tid("foo_entry") == {tid: 1000 for tid, _ in counts(output)}


@pytest.mark.parametrize("ignored", [signal.SIGINT, signal.SIGHUP])
def test_inherited_signals(dyntrace, program, ignored):
    """A signal that was ignored when dyntrace started stays so, as for `nohup` and background jobs of scripts; a
    blocked signal doesn't: only SIGKILL, which leaves probes behind, could end dyntrace."""
    spin = program("spin", "--calls", 1000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(spin.pid, "--function", "foo", prefix=[
        "env", f"--ignore-signal={ignored.name[3:]}", "--block-signal=TERM"])
    tracing.process.send_signal(ignored)
    assert int(status(tracing.process.pid, "SigIgn"), 16) & 1 << ignored - 1
    spin.go().wait_ready()
    trace = tracing.stop(signal.SIGTERM)
    tracing.before.assert_unchanged()
    assert trace.names() == {"foo_entry": 1000}
    spin.finish()


def test_target_ends_by_itself(dyntrace, program):
    spin = program("spin", "--threads", 2, "--calls", 777, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(spin.pid, "--function", "foo")
    output = spin.finish()
    tracing.process.wait(timeout=20)
    assert tracing.process.returncode == 0
    assert Trace(tracing.output).per_tid("foo_entry") == dict(counts(output))


def test_killed_target_keeps_its_events(dyntrace, program):
    spin = program("spin", "--threads", 2, "--calls", 777, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(spin.pid, "--function", "foo")
    spin.go().wait_ready()
    spin.process.kill()
    tracing.process.wait(timeout=20)
    trace = Trace(tracing.output)
    assert trace.names() == {"foo_entry": 2 * 777}
    assert trace.lost == 0


HEAVY = "import sys; block = b'x' * (400 << 20); print(flush=True); sys.stdin.read(1)"


def test_killed_while_dyntrace_begins(dyntrace, processes):
    """The kernel takes a while to free the memory of a killed process: it has ended all the same, and hasn't begun another program."""
    for delay in range(12):
        heavy = processes.start(["/usr/bin/python3", "-c", HEAVY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        heavy.stdout.readline()
        tracing = processes.start([dyntrace.path, "trace", "-q", "-p", str(heavy.pid), "--function", "read@libc.so.6", "-o",
                                   dyntrace.new_output()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.04 + 0.012 * delay)
        heavy.kill()
        said = tracing.communicate(timeout=30)[1]
        assert (tracing.returncode, said) in [(0, ""), (125, f"dyntrace: process {heavy.pid} has ended\n"),
                                              (125, f"dyntrace: no process {heavy.pid}\n")]


def test_many_threads_come_and_go(dyntrace, program):
    churn = program("churn", "--rounds", 20, "--threads", 10, "--calls", 50).wait_ready()
    tracing = dyntrace.start_trace(churn.pid, "--function", "foo")
    output = churn.finish()
    tracing.process.wait(timeout=20)
    trace = Trace(tracing.output)
    assert trace.names() == {"foo_entry": 20 * 10 * 50}
    expected = {}
    for tid, calls in counts(output):
        expected[tid] = expected.get(tid, 0) + calls
    assert trace.per_tid("foo_entry") == expected


def test_twice_in_a_row_and_by_name(dyntrace, processes, program_path, scratch):
    path = os.path.join(scratch, f"named{os.getpid()}")
    subprocess.run(["cp", program_path("spin"), path], check=True)
    spin = Program(processes, path, ["--threads", 1, "--calls", 10, "--rounds", 3]).wait_ready()
    for target in (spin.pid, os.path.basename(path)):
        tracing = dyntrace.start_trace(spin.pid, "--function", "foo", target=target)
        spin.go().wait_ready()
        trace = tracing.stop()
        tracing.before.assert_unchanged()
        assert trace.names() == {"foo_entry": 10}
    spin.finish()


def test_loss_is_counted_exactly(dyntrace, program):
    """A pool too small for the flood: the summary and babeltrace2 count the losses."""
    spin = program("spin", "--threads", 2, "--calls", 2_000_000, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(spin.pid, "--function", "foo", "--buffer-size", "4M")
    spin.finish()
    _, errors = tracing.process.communicate(timeout=50)
    row = summary_rows(errors)["foo"]
    hits, lost = int(row["hits"]), int(row["lost"])
    assert hits + lost == 4_000_000
    judge = subprocess.run(["babeltrace2", tracing.output, "-c", "sink.utils.counter", "-p", "step=+0"],
                           capture_output=True, text=True)
    words = judge.stdout.split()
    assert int(next(line.split()[0] for line in judge.stdout.splitlines() if "Event message" in line)
               .replace(",", "")) == hits, judge.stdout
    assert words


def test_stopped_process_stays_stopped(dyntrace, program):
    spin = program("spin", "--threads", 2, "--calls", 10, "--rounds", 1).wait_ready()
    os.kill(spin.pid, signal.SIGSTOP)
    until(lambda: status(spin.pid, "State").startswith("T"), "the stop")
    tracing = dyntrace.start_trace(spin.pid, "--function", "foo")
    until(lambda: status(spin.pid, "State").startswith("T"), "it to be stopped again")  # on its way there it counts as running
    trace = tracing.stop()
    until(lambda: status(spin.pid, "State").startswith("T"), "it to be stopped again")
    tracing.before.assert_unchanged()
    assert trace.names() == {}
    os.kill(spin.pid, signal.SIGCONT)
    spin.finish()


PROLIFIC = r"""
    #include <signal.h>
    #include <stdio.h>
    #include <time.h>
    #include <unistd.h>
    __attribute__((noinline)) void foo(void) { __asm__ volatile(""); }
    int main(void) {
        const struct timespec pause = { 0, 10000000 };
        int ends[2];
        char c;
        if (pipe(ends)) return 1;
        signal(SIGCHLD, SIG_IGN);
        puts("ready"); fflush(stdout);
        for (;;) {
            foo();
            if (!fork()) { close(ends[1]); _exit(read(ends[0], &c, 1) > 0); }
            nanosleep(&pause, NULL);
        }
    }"""


def test_children_that_are_forked_while_dyntrace_leaves(dyntrace, processes, scratch):
    """No child keeps the agent's memory, whenever it was forked."""
    path = os.path.join(scratch, "prolific")
    subprocess.run(["gcc", "-O1", "-x", "c", "-o", path, "-"], check=True, text=True, input=PROLIFIC)
    target = processes.start([path], stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    result = dyntrace("trace", "-p", target.pid, "--function", "foo", "-o", dyntrace.new_output(), "--for", "0.05")
    assert "stays in process" not in result.stderr
    target.send_signal(signal.SIGSTOP)
    with open(f"/proc/{target.pid}/task/{target.pid}/children") as file:
        children = file.read().split()
    kept = [pid for pid in children if "memfd:dyntrace" in "".join(maps(pid))]
    target.kill()  # the others see the end of their pipe
    assert children and not kept


def test_forked_children_are_cleaned_up(dyntrace, redis):
    """The text of a child that outlives the trace (as redis saving in the background) is restored, too."""
    code = ("import os, sys, signal\n"
            "def f(): return os.getpid()\n"
            "r, w = os.pipe()\n"
            "print('ready', flush=True)\n"
            "sys.stdin.readline()\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    os.write(w, b'x')\n"
            "    signal.pause()\n"
            "os.read(r, 1)\n"
            "print(pid, flush=True)\n"
            "sys.stdin.readline()\n"
            "os.kill(pid, 9); os.waitpid(pid, 0)\n")
    parent = dyntrace.processes.start(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "ready\n"
    until(lambda: open(f"/proc/{parent.pid}/syscall").read().startswith("0 0x0 "), "python to wait")
    tracing = dyntrace.start_trace(parent.pid, "--function", "PyOS_AfterFork_Child", "--function", "PyObject_Call")
    parent.stdin.write("\n")
    parent.stdin.flush()
    child = int(parent.stdout.readline())
    assert "memfd:dyntrace" in open(f"/proc/{child}/maps").read()
    trace = tracing.stop()
    assert [event.pid for event in trace.named("PyOS_AfterFork_Child_entry")] == [child]
    for pid in (parent.pid, child):
        assert "memfd:dyntrace" not in open(f"/proc/{pid}/maps").read()
    tracing.before.assert_unchanged()
    mine, its = Snapshot(parent.pid).text, Snapshot(child).text
    assert mine == its
    parent.stdin.write("\n")
    parent.stdin.close()
    assert parent.wait(timeout=10) == 0


# ---- errors ------------------------------------------------------------------------------------------

def test_no_such_process(dyntrace):
    message = dyntrace.fails("trace", "-p", "4194300", "--function", "main", status=125)
    assert "4194300" in message and "no process" in message


def test_no_such_name(dyntrace):
    assert "no-such-name" in dyntrace.fails("trace", "-p", "no-such-name", "--function", "main", status=125)


def test_kernel_thread(dyntrace):
    if comm_of(2) != "kthreadd":
        pytest.skip("no kernel threads in this pid namespace")
    assert "kernel thread" in dyntrace.fails("trace", "-p", "2", "--function", "main", status=125)


def test_zombie(dyntrace, processes):
    code = "import os, time\nif os.fork() == 0: os._exit(0)\nprint(flush=True)\ntime.sleep(100)"
    parent = processes.start([sys.executable, "-c", code], stdout=subprocess.PIPE)
    parent.stdout.readline()
    child = int(open(f"/proc/{parent.pid}/task/{parent.pid}/children").read().split()[0])
    until(lambda: status(child, "State").startswith("Z"), "a zombie")
    assert "zombie" in dyntrace.fails("trace", "-p", child, "--function", "main", status=125)


def test_another_tracer(dyntrace, program, processes):
    spin = program("spin", "--threads", 1, "--calls", 1, "--rounds", 1).wait_ready()
    strace = processes.start(["strace", "-qq", "-o", "/dev/null", "-p", spin.pid], stderr=subprocess.DEVNULL)
    until(lambda: status(spin.pid, "TracerPid") == str(strace.pid), "strace")
    message = dyntrace.fails("trace", "-p", spin.pid, "--function", "foo", status=125)
    assert str(strace.pid) in message and "strace" in message


def test_not_permitted(dyntrace, program, scratch):
    os.chmod(scratch, 0o777)
    spin = program("spin", "--threads", 1, "--calls", 1, "--rounds", 1).wait_ready()
    result = subprocess.run(["setpriv", "--reuid", "nobody", "--clear-groups", dyntrace.path, "trace", "-p",
                             str(spin.pid), "--function", "foo"], cwd=scratch, capture_output=True, text=True)
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    assert result.returncode == 126, result.stderr
    assert result.stderr.count("\n") == 1
    assert threads(spin.pid)


def test_32_bit(dyntrace, processes, scratch):
    """A program that does nothing but pause, made with binutils alone."""
    source, thing, path = (os.path.join(scratch, name) for name in ("p.s", "p.o", "p32"))
    with open(source, "w") as file:
        file.write(".globl _start\n_start: mov $29, %eax\n int $0x80\n jmp _start\n")
    subprocess.run(["as", "--32", source, "-o", thing], check=True)
    subprocess.run(["ld", "-m", "elf_i386", thing, "-o", path], check=True)
    try:
        process = processes.start([path])
    except OSError:
        pytest.skip("this kernel runs no 32-bit programs")
    for words in (["-p", process.pid, "--function", "main"], ["--function", "main", "--", path]):
        assert "32-bit" in dyntrace.fails("trace", *words, status=125)


def test_symbol_not_found_leaves_nothing(dyntrace, redis, scratch):
    before = Snapshot(redis.pid)
    message = dyntrace.fails("trace", "-p", redis.pid, "-o", os.path.join(scratch, "t"), "--function",
                             "procesCommand", status=125)
    assert "processCommand" in message
    before.assert_unchanged()
    assert not os.path.exists(os.path.join(scratch, "t"))


def test_full_trace_directory_is_reported(dyntrace, redis):
    before = Snapshot(redis.pid)
    message = dyntrace.fails("trace", "-p", redis.pid, "-o", "/proc/no/where", "--function", "processCommand",
                             status=125)
    assert "/proc/no" in message
    before.assert_unchanged()
