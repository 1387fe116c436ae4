"""Threads that wait in a system call that a probe has moved go back to the program's own code when the probe goes."""
import subprocess

import pytest
from harness import Snapshot, state, threads, until

# wait_in_read's first five bytes hold its call; wait_in_epoll has the probe at the call itself. A stop of dyntrace's lets the kernel begin the
# first call again, and rewinds the second, which would end with EINTR: to the copy's `syscall`, behind the code of the event.
SOURCE = """
    #include <pthread.h>
    #include <stdio.h>
    #include <sys/epoll.h>
    #include <unistd.h>
    long wait_in_read(long fd, void *to, long size), wait_in_epoll(long set, void *events, long count, long timeout);
    __asm__(".text\\n.globl wait_in_read, wait_in_epoll\\n"
            ".type wait_in_read, @function\\nwait_in_read: .cfi_startproc\\nxor %eax, %eax\\nnop\\nsyscall\\nret\\n.cfi_endproc\\n"
            ".size wait_in_read, . - wait_in_read\\n"
            ".type wait_in_epoll, @function\\nwait_in_epoll: .cfi_startproc\\nmov %rcx, %r10\\nmov $232, %eax\\n"
            "syscall\\nnop\\nnop\\nnop\\nret\\n.cfi_endproc\\n.size wait_in_epoll, . - wait_in_epoll\\n");
    static int pipes[2][2], set;
    static void *run_read(void *unused)
    {
        char byte;
        for (int i = 0; i < 2; i++)
            printf("%ld", wait_in_read(pipes[0][0], &byte, 1));
        fflush(stdout);
        return NULL;
    }
    static void *run_epoll(void *unused)
    {
        struct epoll_event event;
        char byte;
        for (int i = 0; i < 2; i++) {
            printf("%ld", wait_in_epoll(set, &event, 1, -1));
            read(pipes[1][0], &byte, 1);
        }
        return NULL;
    }
    int main(void)
    {
        struct epoll_event event = { .events = EPOLLIN };
        pthread_t threads[2];
        char byte;
        setvbuf(stdout, NULL, _IONBF, 0);
        if (pipe(pipes[0]) || pipe(pipes[1]) || (set = epoll_create1(0)) < 0 || epoll_ctl(set, EPOLL_CTL_ADD, pipes[1][0], &event))
            return 1;
        pthread_create(&threads[0], NULL, run_read, NULL);
        pthread_create(&threads[1], NULL, run_epoll, NULL);
        puts("ready");
        while (read(0, &byte, 1) == 1) {
            write(pipes[0][1], "x", 1);
            write(pipes[1][1], "x", 1);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    }"""


@pytest.fixture(scope="module")
def waits(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("waits") / "waits")
    subprocess.run(["gcc", "-g", "-O1", "-w", "-pthread", "-x", "c", "-o", path, "-"], check=True, text=True, input=SOURCE)
    return path


@pytest.mark.parametrize("killed", [False, True])
def test_moved_calls_that_wait(dyntrace, waits, processes, killed):
    """No wait ends early, and nothing of dyntrace's stays: also if it was killed, and another one cleans up."""
    target = processes.start([waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"

    def wait():
        until(lambda: all(state(f"{target.pid}/task/{tid}") == "S" for tid in threads(target.pid)), "all threads wait")
    wait()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe", "wait_in_read", "--probe", "wait_in_epoll+8")
    target.stdin.write("x")
    target.stdin.flush()
    assert target.stdout.read(2) == "11"
    wait()
    if killed:
        tracing.process.kill()
        tracing.process.wait()
        dyntrace("detach", target.pid)
    else:
        # the call in which the thread waited at the attach was begun again, and hit its probe
        assert tracing.stop().names() == {"wait_in_read": 1, "wait_in_epoll+0x8": 2}
    before.assert_unchanged()
    assert target.communicate("x", timeout=60)[0] == "11" and target.returncode == 0
