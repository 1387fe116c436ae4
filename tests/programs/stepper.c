/*
 * stepper.c - stops the daemon at one system call, and lets a process execute a program there.
 *
 *	stepper POINT TARGET COMMAND-FD DAEMON
 *
 * Follows the daemon (which may be stopped before its first instruction) and its workers from
 * system call to system call. A point is a system call that differs from the one before it in the
 * same process. At the point with the number POINT it writes a byte to COMMAND-FD and waits until
 * TARGET runs another program, is held by a worker, or has ended. Then it prints where that was and
 * lets all go. SIGTERM ends it before; it prints the number of points that it saw.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPTIONS                                                                                    \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
	 PTRACE_O_TRACEEXEC)
#define FOLLOWED_MAX 64
#define WAIT_MS 1000

static struct followed {
	pid_t pid;
	bool inside; /* a system call */
	bool worker;
	unsigned long long last;
} followed[FOLLOWED_MAX];
static volatile sig_atomic_t over;
static unsigned long points, wanted;
static pid_t target;
static int command_fd;

static void end(int number)
{
	(void)number;
	over = 1;
}

static struct followed *find(pid_t pid)
{
	struct followed *found = NULL;

	for (int i = 0; i < FOLLOWED_MAX; i++) {
		if (followed[i].pid == pid)
			return &followed[i];
		if (!followed[i].pid)
			found = &followed[i];
	}
	if (found)
		*found = (struct followed){ .pid = pid, .last = ~0ULL };
	return found;
}

static void forget(pid_t pid)
{
	struct followed *found = find(pid);

	if (found)
		found->pid = 0;
}

static bool read_file(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool is_worker(pid_t pid)
{
	char words[64];

	return read_file(pid, "cmdline", words, sizeof(words)) &&
	       !strcmp(words + strlen(words) + 1, "--worker");
}

static bool target_has_a_tracer(void)
{
	char status[4096];
	const char *line = read_file(target, "status", status, sizeof(status)) ?
				   strstr(status, "\nTracerPid:\t") :
				   NULL;

	return !line || line[strlen("\nTracerPid:\t")] != '0';
}

/* Lets the target execute its program, while all that is followed stands still. */
static void turn_target(const struct followed *at, unsigned long long call)
{
	char path[64], before[4096] = "", now[4096] = "";
	const char *how = "late";

	snprintf(path, sizeof(path), "/proc/%d/exe", target);
	ssize_t length = readlink(path, before, sizeof(before) - 1);
	if (write(command_fd, "x", 1) != 1)
		exit(3);
	for (int i = 0; i < WAIT_MS; i++) {
		ssize_t n = readlink(path, now, sizeof(now) - 1);

		if (n < 0 || n != length || memcmp(before, now, (size_t)n) != 0) {
			how = "there";
			break;
		}
		if (i > 2 && target_has_a_tracer()) {
			how = "held";
			break;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	printf("point %lu %s call %llu %s\n", points, at->worker ? "worker" : "supervisor", call,
	       how);
	fflush(stdout);
	over = 1;
}

static void on_call(struct followed *one)
{
	struct user_regs_struct regs;

	one->inside = !one->inside;
	if (!one->inside || ptrace(PTRACE_GETREGS, one->pid, 0, &regs))
		return;
	if (regs.orig_rax == one->last)
		return;
	one->last = regs.orig_rax;
	if (++points == wanted)
		turn_target(one, regs.orig_rax);
}

/* The program of a helper shows whether it is a worker: others go on alone. */
static bool on_exec(struct followed *one)
{
	one->inside = true; /* the end of execve follows */
	one->worker = is_worker(one->pid);
	return one->worker;
}

static void on_stop(pid_t pid, int status)
{
	struct followed *one = find(pid);
	int event = status >> 16, signal = WSTOPSIG(status);
	unsigned long child = 0;

	if (!one)
		exit(4);
	if (signal == (SIGTRAP | 0x80)) {
		on_call(one);
		signal = 0;
	} else if (event == PTRACE_EVENT_EXEC && one != followed && !on_exec(one)) {
		forget(pid);
		ptrace(PTRACE_DETACH, pid, 0, 0);
		return;
	} else if (event == PTRACE_EVENT_EXEC) {
		one->inside = true;
	} else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
		   event == PTRACE_EVENT_CLONE) {
		ptrace(PTRACE_GETEVENTMSG, pid, 0, &child);
		find((pid_t)child);
	}
	if (event == PTRACE_EVENT_STOP && signal != SIGTRAP)
		ptrace(PTRACE_LISTEN, pid, 0, 0);
	else if (!over)
		ptrace(PTRACE_SYSCALL, pid, 0, event ? 0 : signal);
	else
		ptrace(PTRACE_DETACH, pid, 0, event ? 0 : signal);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return EXIT_FAILURE;
	wanted = strtoul(argv[1], NULL, 10);
	target = atoi(argv[2]);
	command_fd = atoi(argv[3]);
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = end }, NULL);
	pid_t daemon = atoi(argv[4]);
	followed[0] = (struct followed){ .pid = daemon, .last = ~0ULL };
	if (ptrace(PTRACE_SEIZE, daemon, 0, OPTIONS) || ptrace(PTRACE_INTERRUPT, daemon, 0, 0))
		return EXIT_FAILURE;
	kill(daemon, SIGCONT);
	printf("following %d\n", daemon);
	fflush(stdout);
	while (!over) {
		int status;
		pid_t pid = waitpid(-1, &status, __WALL);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0 || (pid == daemon && !WIFSTOPPED(status)))
			break;
		if (WIFSTOPPED(status))
			on_stop(pid, status);
		else
			forget(pid);
	}
	printf("points %lu\n", points); /* the end of this process lets all others go */
	return EXIT_SUCCESS;
}
