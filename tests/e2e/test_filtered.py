"""Programs that filter their system calls while they are traced: no call of ours may kill them (H26)."""
import os
import re
import subprocess

import pytest

from harness import counts  # noqa: F401  (the harness sets up babeltrace2)

WAYS = [[], ["--syscall", "1"], ["--child", "1"], ["--child", "1", "--syscall", "1"]]


def tallied(result):
    events, lost = re.search(r"^(\d+) events?, (\d+) lost", result.stderr, re.MULTILINE).groups()
    return int(events) + int(lost)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("calls", [5, 3000])
@pytest.mark.parametrize("what", ["--function", "--probe"])
def test_locked_in(dyntrace, program_path, way, calls, what):
    """Calls after the filter need more chunks, which the agent fetches without a system call."""
    result, trace = dyntrace.trace(what, "foo", "--", program_path("filter"), "--calls", calls, *way)
    assert result.stdout == "done\n"
    expected = calls * (3 if "--child" in way else 2)
    assert tallied(result) == expected
    assert len(trace.events) == expected and trace.lost == 0


@pytest.mark.parametrize("name", ["filter", "filter_static"])
def test_siblings_of_a_child_that_locks_itself_in(dyntrace, program_path, name):
    """(Q7) Children that are forked later have no filter: whole backtraces and names, as if that child weren't there."""
    result, trace = dyntrace.trace("--function", "foo", "-t", "comm", "-t", "backtrace", "-t", "pid", "--", program_path(name),
                                   "--calls", 300, "--child", 1, "--siblings", 3)
    assert result.stdout == "done\n" and trace.lost == 0
    by_process = {}
    for event in trace.events:
        by_process.setdefault(event.fields["pid"], []).append((event.fields["comm"], len(event.fields["backtrace"]) >= 3))
    parent, locked, *siblings = by_process.values()
    assert parent == [(name, True)] * 600 and siblings == [[(name, True)] * 300] * 3
    assert [comm for comm, _ in locked] == ["(unreadable)"] * 300


@pytest.mark.parametrize("way", WAYS)
def test_a_static_program_is_locked_in(dyntrace, program_path, way):
    """At its first instruction it had no thread block, which tells an agent without calls who a thread is."""
    result, trace = dyntrace.trace("--function", "foo", "--", program_path("filter_static"), "--calls", 3000, *way)
    assert result.stdout == "done\n" and trace.lost == 0
    assert len(trace.events) == 3000 * (3 if "--child" in way else 2)


def test_locked_in_with_exits(dyntrace, program_path):
    result, trace = dyntrace.trace("-e", "--function", "foo", "--", program_path("filter"), "--calls", 3000)
    assert result.stdout == "done\n" and trace.lost == 0
    assert trace.names() == {"foo_entry": 6000, "foo_exit": 6000}


def test_locked_in_while_attached(dyntrace, program):
    filtered = program("filter", "--calls", 5000).wait_ready()
    tracing = dyntrace.start_trace(filtered.pid, "--function", "foo")
    assert filtered.finish() == "done\n"
    tracing.process.wait(timeout=20)


def test_other_prctl_changes_nothing(dyntrace, program_path):
    """Many programs call prctl for many reasons: only a filter ends the agent's own calls."""
    result, trace = dyntrace.trace("--function", "prctl", "--function", "foo", "--", program_path("filter"),
                                   "--calls", "10")
    assert result.stdout == "done\n"
    assert trace.names()["prctl_entry"] == 2


def test_who_asks_for_filters_has_none(dyntrace, scratch):
    """As browsers and libseccomp do: a filter at NULL, or strict mode with a flag, is refused by the kernel, but only if there are filters."""
    path = os.path.join(scratch, "asker")
    subprocess.run(["gcc", "-pthread", "-x", "c", "-o", path, "-"], check=True, text=True, input="""
        #include <errno.h>
        #include <linux/seccomp.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        __attribute__((noinline)) void foo(void) { __asm__ volatile(""); }
        static void *work(void *data) { for (int i = 0; i < 20000; i++) foo(); return data; }
        static void ask(long result) { if (result != -1 || errno != EFAULT) printf("%ld %d\\n", result, errno); }
        int main(void) {
            unsigned action = SECCOMP_RET_LOG;
            pthread_t thread;
            ask(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
            ask(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL));
            ask(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
            if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action)) perror("action");
            if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) != -1 || errno != EINVAL) puts("strict");
            pthread_create(&thread, NULL, work, NULL);
            pthread_join(thread, NULL);
            puts("done");
        }""")
    result, trace = dyntrace.trace("--function", "foo", "--", path)
    assert result.stdout == "done\n"
    assert trace.names() == {"foo_entry": 20000} and trace.lost == 0


def test_a_clock_that_is_forbidden_is_noticed_at_attach(dyntrace, processes, scratch):
    """Each hit would be a SIGSEGV."""
    path = os.path.join(scratch, "clockless")
    subprocess.run(["gcc", "-x", "c", "-o", path, "-"], check=True, text=True, input="""
        #include <stdio.h>
        #include <sys/prctl.h>
        int main(void) { prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0); puts("ready"); fflush(stdout); getchar(); puts("alive"); }""")
    target = processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    error = dyntrace.fails("trace", "-p", target.pid, "--function", "read", "--for", 5, status=125)
    assert "forbids itself to read the processor's clock (PR_SET_TSC)" in error
    assert target.communicate("\n", timeout=30)[0] == "alive\n" and target.returncode == 0
