"""Programs that handle their own system calls (Syscall User Dispatch, Wine's way), or give up the clock (H26)."""
import ctypes
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from harness import Trace

CALLS = 2000
WAYS = {"byte": [], "libc": ["--range", "libc"], "own": ["--range", "own"], "busy": ["--range", "own", "--busy", 1]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("words", [[], ["-e"], ["-t", "tid", "-t", "backtrace"]], ids=["plain", "exits", "gathered"])
def test_own_system_calls_stay_its_own(dyntrace, program, way, words):
    """Its handler gets its own calls and none of ours, at the attach, at hits and when we leave."""
    target = program("dispatched", "--calls", CALLS, "--rounds", 2, *WAYS[way]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", *words)
    target.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.lost == 0
    names = ["foo_entry", "foo_exit"] if "-e" in words else ["foo_entry"]
    assert trace.names() == {name: 2 * CALLS for name in names}
    assert "it handles its own system calls: dyntrace makes no system call in it" in tracing.stderr
    target.go().wait_ready()
    assert target.finish().split() == [str(4 * CALLS), str(4 * CALLS // 10), "0"]


def test_what_is_lost_without_calls(dyntrace, program):
    """Values in the heap, and names of threads: each says so, in its place."""
    target = program("dispatched", "--calls", 100, "--heap", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", "-t", "comm")
    target.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.names() == {"foo_entry": 200} and trace.lost == 0
    for event in trace.events:
        assert event.fields["comm"] == "(unreadable)" and re.fullmatch(r"\(unreadable 0x[0-9a-f]+\)", event.fields["text"]), event
    assert target.finish().split() == ["200", "20", "0"]


@pytest.mark.parametrize("words", [[], ["-e"]], ids=["plain", "exits"])
def test_dispatch_that_begins_while_traced(dyntrace, program, words):
    target = program("dispatched", "--calls", CALLS, "--rounds", 3, "--late", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", *words)
    for _ in range(2):
        target.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.lost == 0 and set(trace.names().values()) == {4 * CALLS}
    target.go().wait_ready()
    assert target.finish().split() == [str(6 * CALLS), str(4 * CALLS // 10), "0"]


def dispatch(tid):
    """Whether the thread's system calls are dispatched to itself: what the kernel says."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_ulong] * 4
    libc.ptrace.restype = ctypes.c_long
    seize, interrupt, get_config, detach = 0x4206, 0x4207, 0x4211, 17
    if libc.ptrace(seize, tid, 0, 0):
        return None  # somebody else has it
    libc.ptrace(interrupt, tid, 0, 0)
    _, stopped = os.waitpid(tid, 0x40000000)
    config = (ctypes.c_uint64 * 4)()
    assert not libc.ptrace(get_config, tid, ctypes.sizeof(config), ctypes.addressof(config)), hex(stopped)
    # a thread about to get a signal, SIGSYS for a call of its own as a rule, must get it: else the call is lost
    libc.ptrace(detach, tid, 0, 0 if stopped >> 16 else os.WSTOPSIG(stopped))
    return bool(config[0])


def has_come_back(threads):
    """Waits until all threads' calls are dispatched again. Pauses grow: a thread that waits for a processor while it is asked again
    never runs in between."""
    pause = 0.01
    deadline = time.monotonic() + 120
    while [dispatch(tid) for tid in threads] != [True] * len(threads):
        assert time.monotonic() < deadline, "the dispatch of a thread never comes back"
        time.sleep(pause)
        pause *= 1.5
    return True


def starve(processes, threads):
    """The threads get what another process of theirs leaves: a hundredth of a processor."""
    cpu = min(os.sched_getaffinity(0))
    processes.start(["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"])
    for tid in threads:
        os.sched_setaffinity(tid, {cpu})
        os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))


def killed_at(build, program, scratch, first, second, starved=None):
    """kill -9 at calls of ptrace around the one that sets the dispatch of a thread aside, and the one that puts it back: at these distances.
    The number of calls before differs a little from run to run, so each distance stands for those beside it, too."""
    log = os.path.join(scratch, "calls")
    command = [os.path.join(build, "dyntrace"), "trace", "-o", os.path.join(scratch, "trace"), "--function", "foo", "--for", "0.1", "-p"]
    target = program("dispatched", "--calls", CALLS, "--rounds", 1, *WAYS["busy"]).wait_ready()
    threads = [int(tid) for tid in os.listdir(f"/proc/{target.pid}/task")]
    assert [dispatch(tid) for tid in threads] == [True] * len(threads)
    subprocess.run(["strace", "-qq", "-o", log, "-e", "trace=ptrace", *command, str(target.pid)], check=True, capture_output=True)
    with open(log) as file:
        lines = [line for line in file if line.startswith("ptrace(")]
    calls = [n for n, line in enumerate(lines, 1) if re.search("PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG|0x4210", line)]
    assert len(calls) >= 2
    if starved:
        starve(starved, threads)
    for when in [*(calls[0] + distance for distance in first), *(calls[1] + distance for distance in second)]:
        shutil.rmtree(os.path.join(scratch, "trace"), ignore_errors=True)
        killed = subprocess.run(["strace", "-qq", "-o", log, "-e", "trace=ptrace", "-e", f"inject=ptrace:signal=SIGKILL:when={when}", *command,
                                 str(target.pid)], capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed
        assert has_come_back(threads)
    target.go().wait_ready()
    assert target.finish().split() == [str(2 * CALLS), str(2 * CALLS // 10), "0"]


def test_dispatch_comes_back_when_the_tracer_is_killed(build, program, scratch):
    killed_at(build, program, scratch, [1], [0, 1])


def test_dispatch_comes_back_to_a_thread_that_hardly_runs(build, program, scratch, processes):
    """The guard stops the thread to ask whether it is home: one that waits for a processor for longer than the guard does before it
    asks again would never get there."""
    killed_at(build, program, scratch, [2], [], starved=processes)


@pytest.fixture(scope="module")
def clockless(tmp_path_factory):
    """The path of a program in which one thread gives up the clock: foo is called 12,000 times with it, 2,000 without."""
    path = str(tmp_path_factory.mktemp("clockless") / "clockless")
    subprocess.run(["gcc", "-O1", "-pthread", "-x", "c", "-o", path, "-"], check=True, text=True, input=r"""
        #define _GNU_SOURCE
        #include <linux/seccomp.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static volatile int given_up, go_on;
        __attribute__((noinline)) void foo(void) { __asm__ volatile(""); }
        static void call(int n) { while (n--) foo(); }
        static void *child(void *data) { call(1000); return data; }
        __attribute__((noinline)) int lose(const char *way) {
            if (!strcmp(way, "prctl")) prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
            if (!strcmp(way, "syscall")) syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
            if (!strcmp(way, "strict")) prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
            return way[0];
        }
        static void *loser(void *way) {
            pthread_t thread;
            call(1000);
            lose(way);
            call(1000);
            if (strcmp(way, "strict")) { pthread_create(&thread, 0, child, 0); pthread_join(thread, 0); } else call(1000);
            given_up = 1;
            for (;;) if (go_on) syscall(SYS_exit, 0);
        }
        int main(int argc, char **argv) {
            pthread_t thread;
            puts("ready"); fflush(stdout); getchar();
            call(1000);
            pthread_create(&thread, 0, loser, argv[1]);
            while (!given_up) usleep(1000);
            call(10000);
            puts("done"); fflush(stdout); getchar(); puts("alive");
            go_on = 1;
            fflush(stdout); _exit(argc - 2);
        }""")
    return path


@pytest.mark.parametrize("way, words", [("prctl", []), ("prctl", ["-t", "backtrace"]), ("syscall", ["-e"]), ("strict", []), ("strict", ["-e"])],
                         ids=["prctl-plain", "prctl-gathered", "syscall-exits", "strict-plain", "strict-exits"])
def test_a_thread_that_gives_up_the_clock(dyntrace, processes, clockless, way, words):
    """Its later hits, and those of threads that it makes, are lost and counted; other threads record."""
    target = processes.start([clockless, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", *words)
    target.stdin.write("\n")
    target.stdin.flush()
    assert target.stdout.readline() == "done\n"
    tracing.process.send_signal(signal.SIGINT)
    tracing.process.communicate(timeout=60)
    trace = Trace(tracing.output)
    assert trace.names()["foo_entry"] == 12000 and trace.lost == 2000
    if "-e" in words:
        assert trace.names()["foo_exit"] == 12000
    assert target.communicate("\n", timeout=30)[0] == "alive\n" and target.returncode == 0


@pytest.mark.parametrize("way, words, rows", [
    ("prctl", ["--tracer", "count", "-e"], ["12000 14000 2000 foo", "0 1 1 lose"]),
    ("strict", ["--tracer", "count", "-e"], ["12000 14000 2000 foo", "0 1 1 lose"]),
    ("prctl", ["--tracer", "count", "--rate", "1000000000/s"], ["14000 foo", "1 lose"]),
    ("prctl", ["--rate", "1000000000/s"], ["12000 2000 foo", "1 0 lose"]),
    ("prctl", ["-e", "--filter", "duration >= 0"], ["12000 12000 0 2000 foo", "0 0 0 1 lose"]),
    ("prctl", ["-e", "-t", "backtrace"], ["12000 12000 2000 0 foo", "0 1 0 0 lose"]),
], ids=["count", "strict-count", "count-rate", "rate", "duration", "gathered"])
def test_measures_of_a_thread_without_the_clock(build, processes, scratch, clockless, way, words, rows):
    """What needs the clock before all else is left out, and counted; the call in which the clock was given up, too."""
    output = [] if "count" in words else ["-o", os.path.join(scratch, "trace")]
    tracing = processes.start([os.path.join(build, "dyntrace"), "trace", "--wide", "--all-rows", *output, *words, "--function", "foo",
                               "--function", "lose", "--", clockless, way],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, said = tracing.communicate("\n\n", timeout=60)
    assert (out, tracing.returncode) == ("ready\ndone\nalive\n", 0), said
    table = [re.split("  +", line.strip()) for line in said.splitlines()]
    head = next(i for i, line in enumerate(table) if line[-1:] == ["function"])
    wanted = [table[head].index(name) for name in ("calls", "hits", "lost", "missed", "function") if name in table[head]]
    assert [" ".join(line[i] for i in wanted) for line in table[head + 1:head + 3]] == rows, said


FORKED = r"""
    #define _GNU_SOURCE
    #include <stdio.h>
    #include <string.h>
    #include <sys/prctl.h>
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) void foo(void) { __asm__ volatile(""); }
    static int child(int gives_up) {
        int status;
        pid_t pid = fork();
        if (!pid) {
            if (gives_up) prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
            for (int i = 0; i < 100; i++) foo();
            _exit(0);
        }
        return waitpid(pid, &status, 0) == pid ? status : -1;
    }
    int main(int argc, char **argv) {
        int parent = !strcmp(argv[1], "parent"), status = 0;
        for (int i = 0; i < 100; i++) foo();
        if (parent) prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
        for (int i = 0; i < 3; i++) status |= child(!parent && !i);
        printf("%d\n", status);
    }"""


@pytest.mark.parametrize("words", [[], ["-e"], ["-t", "backtrace"], ["-e", "-t", "backtrace"]], ids=["plain", "exits", "gathered", "both"])
@pytest.mark.parametrize("who, recorded", [("parent", 100), ("child", 300)])
def test_forked_processes_without_the_clock(dyntrace, scratch, who, recorded, words):
    """A child has its parent's clock, or none (Q7): hits are lost and counted there. A child that gives up the clock costs its siblings nothing."""
    path = os.path.join(scratch, "forked")
    subprocess.run(["gcc", "-O1", "-x", "c", "-o", path, "-"], check=True, text=True, input=FORKED)
    result, trace = dyntrace.trace("--function", "foo", *words, "--", path, who)
    assert result.stdout == "0\n"
    assert trace.names() == {name: recorded for name in (["foo_entry", "foo_exit"] if "-e" in words else ["foo_entry"])}
    assert trace.lost == 400 - recorded


BY_RANGE = r"""
    #define _GNU_SOURCE
    #include <poll.h>
    #include <signal.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/prctl.h>
    #include <sys/select.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <ucontext.h>
    #include <unistd.h>
    static volatile char selector;
    static volatile int guest, strange;
    __attribute__((noinline)) void tiny(const char *text) { __asm__ volatile("" : : "r"(text) : "memory"); }
    __attribute__((noinline)) void take(const char *text) { __asm__ volatile("nopl 8(%%rax,%%rax)" : : "r"(text) : "memory"); }
    static void on_call(int number, siginfo_t *info, void *data)
    {
        if (info->si_syscall == 0x7000)
            guest++;
        else
            strange++;
        ((ucontext_t *)data)->uc_mcontext.gregs[REG_RAX] = 4711;
    }
    static void find_libc(unsigned long *start, unsigned long *length)
    {
        char line[512];
        FILE *maps = fopen("/proc/self/maps", "r");
        while (fgets(line, sizeof(line), maps)) {
            unsigned long end;
            if (strstr(line, "r-xp") && strstr(line, "/libc") && sscanf(line, "%lx-%lx", start, &end) == 2)
                *length = end - *start;
        }
        fclose(maps);
    }
    int main(int argc, char **argv)
    {
        static const unsigned char code[] = { 0xb8, 0, 0x70, 0, 0, 0x0f, 5, 0xc3 };
        struct sigaction action = { .sa_sigaction = on_call, .sa_flags = SA_SIGINFO };
        struct timespec now = { 0, 0 };
        unsigned long start = 0, length = 0;
        char *heap = strdup("in the heap"), *page = mmap(NULL, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sigset_t all, old;
        memcpy(page, code, sizeof(code));
        find_libc(&start, &length);
        for (int i = 0; i < 5; i++) {
            take(heap);
            tiny(heap);
        }
        sigfillset(&all);
        sigaction(SIGSYS, &action, NULL);
        if (prctl(59, 1, start, length, &selector))
            return 2;
        selector = 1;
        long result = ((long (*)(void))page)();
        sigprocmask(SIG_BLOCK, NULL, &old);
        ppoll(NULL, 0, &now, &old);
        pselect(0, NULL, NULL, NULL, &now, &old);
        syscall(SYS_getuid);
        for (int i = 0; i < 5; i++) {
            take(heap);
            tiny(heap);
        }
        selector = 0;
        if (argc > 1 && !strcmp(argv[1], "crash")) {
            selector = 1;
            *(volatile char *)0x30000 = 1;
        }
        printf("%ld %d %d\n", result, guest, strange);
        return 0;
    }"""


@pytest.fixture(scope="module")
def by_range(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("by_range") / "by_range")
    subprocess.run(["gcc", "-g", "-O1", "-w", "-x", "c", "-o", path, "-"], check=True, text=True, input=BY_RANGE)
    return path


@pytest.mark.parametrize("end, code", [("", 0), ("crash", 128 + signal.SIGSEGV)])
def test_dispatch_by_the_range_of_the_libc(dyntrace, by_range, end, code):
    """System calls that guards of traps have moved are the libc's own again before those from elsewhere become signals. The trap of
    `tiny` is taken out then."""
    words = [by_range, *end.split()]
    alone = subprocess.run(words, capture_output=True, text=True)
    assert alone.stdout == ("" if end else "4711 1 0\n") and alone.returncode == (-signal.SIGSEGV if end else 0)
    result, trace = dyntrace.trace("--function", "tiny", "--", *words, status=code)
    assert result.stdout == alone.stdout and "its trap was taken out" in result.stderr
    assert [event.fields["text"] for event in trace.named("tiny_entry")] == ["in the heap"] * 5
