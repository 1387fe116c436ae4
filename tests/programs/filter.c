/*
 * filter - a program that locks itself in.
 *	filter [--calls N] [--child 1] [--syscall 1] [--siblings N]
 * Calls foo N times, lets the kernel kill it for any system call but write and exit_group, and
 * calls foo N times again; with --child a forked child does the latter. Prints "done". --siblings:
 * after that child, so many further ones are forked, without a filter, and call foo N times each.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "foo.h"
#include "handshake.h"

static int lock_in(int by_syscall)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	if (by_syscall)
		return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void work_inside(long calls, int by_syscall)
{
	static const char done[] = "done\n";

	if (lock_in(by_syscall))
		_exit(4);
	foo_many(calls);
	syscall(SYS_write, 1, done, sizeof(done) - 1);
	syscall(SYS_exit_group, 0);
}

static int fork_siblings(long count, long calls)
{
	int status = 0;

	for (long i = 0; i < count && !status; i++) {
		pid_t child = fork();

		if (child == 0) {
			foo_many(calls);
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 6;
	}
	return status ? 7 : 0;
}

int main(int argc, char **argv)
{
	long calls = handshake_option(argc, argv, "calls", 100);
	int by_syscall = (int)handshake_option(argc, argv, "syscall", 0), status;

	handshake(argc, argv);
	foo_many(calls);
	if (!handshake_option(argc, argv, "child", 0))
		work_inside(calls, by_syscall);
	pid_t child = fork();
	if (child == 0)
		work_inside(calls, by_syscall);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 3;
	foo_many(calls);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return 5;
	return fork_siblings(handshake_option(argc, argv, "siblings", 0), calls);
}
