/*
 * sleeper - one thread in each system call that a stop may interrupt.
 *	sleeper [--ms N]
 * "ready" when every thread is asleep in its call. Each call must end as it would have ended
 * undisturbed: by its timeout of N ms, or by what main does after "go". No thread ends before "go":
 * a test that doesn't get to run for N ms finds all of them. Prints "NAME ok" or "NAME bad: ..."
 * for each.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "handshake.h"

static long limit_ms;
static pthread_mutex_t end = PTHREAD_MUTEX_INITIALIZER; /* main's, until no thread is needed */
static int pipe_fd[2], quiet_pipe[2], listener, inotify, sockets[2], timed_sockets[2], semaphores;
static uint32_t word;

static struct timespec span(long ms)
{
	return (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- ended by their timeout ---- */
static long do_nanosleep(void)
{
	struct timespec t = span(limit_ms), left = { 0 };

	return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, &left);
}

static long do_poll(void)
{
	struct pollfd fd = { quiet_pipe[0], POLLIN, 0 };

	return syscall(SYS_poll, &fd, 1, limit_ms);
}

static long do_select(void)
{
	struct timespec t = span(limit_ms);
	fd_set fds;

	FD_ZERO(&fds);
	FD_SET(quiet_pipe[0], &fds);
	return syscall(SYS_pselect6, quiet_pipe[0] + 1, &fds, NULL, NULL, &t, NULL);
}

static long do_futex(void)
{
	struct timespec t = span(limit_ms);

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
}

static long do_epoll_timeout(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, quiet_pipe[0], &event);
	return syscall(SYS_epoll_wait, fd, &event, 1, limit_ms);
}

static long do_sigtimedwait(void)
{
	struct timespec t = span(limit_ms);
	uint64_t set = 1ULL << (SIGUSR2 - 1);

	return syscall(SYS_rt_sigtimedwait, &set, NULL, &t, 8);
}

static long do_semtimedop(void)
{
	struct timespec t = span(limit_ms);
	struct sembuf op = { 1, -1, 0 };

	return syscall(SYS_semtimedop, semaphores, &op, 1, &t);
}

static long do_recv_timeout(void)
{
	char byte;

	return syscall(SYS_recvfrom, timed_sockets[0], &byte, 1, 0, NULL, NULL);
}

/* ---- ended by main ---- */
static long do_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, pipe_fd[0], &event);
	return syscall(SYS_epoll_wait, fd, &event, 1, -1);
}

static long do_read(void)
{
	char byte;

	return syscall(SYS_read, sockets[0], &byte, 1);
}

static long do_inotify(void)
{
	char bytes[512];

	return syscall(SYS_read, inotify, bytes, sizeof(bytes)) > 0;
}

static long do_accept(void)
{
	return syscall(SYS_accept, listener, NULL, NULL) > 0;
}

static long do_semop(void)
{
	struct sembuf op = { 0, -1, 0 };

	return syscall(SYS_semop, semaphores, &op, 1);
}

static long do_sigwait(void)
{
	uint64_t set = 1ULL << (SIGUSR1 - 1);

	return syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 8);
}

static struct sleeper {
	const char *name;
	long number;
	long (*call)(void);
	long expected;
	int expected_errno; /* when expected is -1 */
	int timed; /* it lasts limit_ms, at least */
	int afresh; /* a stop may begin its time anew */
	struct {
		pthread_t thread;
		volatile pid_t tid;
		long result, took, waited; /* waited: of that, for a processor */
		int error;
		volatile int is_over;
	} run;
} sleepers[] = {
	{ "clock_nanosleep", SYS_clock_nanosleep, do_nanosleep, 0, 0, 1, 0, { 0 } },
	{ "poll", SYS_poll, do_poll, 0, 0, 1, 0, { 0 } },
	{ "pselect", SYS_pselect6, do_select, 0, 0, 1, 0, { 0 } },
	{ "futex", SYS_futex, do_futex, -1, ETIMEDOUT, 1, 0, { 0 } },
	{ "epoll_timeout", SYS_epoll_wait, do_epoll_timeout, 0, 0, 1, 1, { 0 } },
	{ "sigtimedwait", SYS_rt_sigtimedwait, do_sigtimedwait, -1, EAGAIN, 1, 1, { 0 } },
	{ "semtimedop", SYS_semtimedop, do_semtimedop, -1, EAGAIN, 1, 1, { 0 } },
	{ "recv_timeout", SYS_recvfrom, do_recv_timeout, -1, EAGAIN, 1, 1, { 0 } },
	{ "epoll", SYS_epoll_wait, do_epoll, 1, 0, 0, 0, { 0 } },
	{ "read", SYS_read, do_read, 1, 0, 0, 0, { 0 } },
	{ "inotify", SYS_read, do_inotify, 1, 0, 0, 0, { 0 } },
	{ "accept", SYS_accept, do_accept, 1, 0, 0, 0, { 0 } },
	{ "semop", SYS_semop, do_semop, 0, 0, 0, 0, { 0 } },
	{ "sigwait", SYS_rt_sigtimedwait, do_sigwait, SIGUSR1, 0, 0, 0, { 0 } },
};
#define COUNT (sizeof(sleepers) / sizeof(*sleepers))

/* How long this thread has ever waited for a processor, in ms: no fault of who holds it. */
static long waited_ms(void)
{
	unsigned long long ran, waited = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "re");

	if (file && fscanf(file, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	if (file)
		fclose(file);
	return (long)(waited / 1000000);
}

static void *sleeper_main(void *data)
{
	struct sleeper *self = data;

	self->run.tid = (pid_t)syscall(SYS_gettid);
	long waited = waited_ms(), begin = now_ms();
	errno = 0;
	self->run.result = self->call();
	self->run.error = errno;
	self->run.took = now_ms() - begin;
	self->run.waited = waited_ms() - waited;
	self->run.is_over = 1;
	pthread_mutex_lock(&end);
	pthread_mutex_unlock(&end);
	return NULL;
}

/* True: it is asleep in its call, or (where main didn't run for so long) in the wait behind it. */
static int is_asleep(const struct sleeper *sleeper)
{
	char path[64], text[128] = "";
	int fd = -1;

	if (!sleeper->run.tid)
		return 0;
	if (sleeper->run.is_over)
		return 1;
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", sleeper->run.tid);
	fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && text[0] != 'r' && atol(text) == sleeper->number;
}

static void prepare(struct sockaddr_in *address)
{
	struct timeval timeout = { limit_ms / 1000, limit_ms % 1000 * 1000 };
	socklen_t length = sizeof(*address);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pipe(pipe_fd) || pipe(quiet_pipe) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, timed_sockets))
		exit(2);
	setsockopt(timed_sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	inotify = inotify_init();
	semaphores = semget(IPC_PRIVATE, 2, 0600);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (inotify < 0 || semaphores < 0 || bind(listener, (void *)address, sizeof(*address)) ||
	    listen(listener, 1) || getsockname(listener, (void *)address, &length))
		exit(2);
}

static void end_them(const struct sockaddr_in *address, const char *file)
{
	struct sembuf op = { 0, 1, 0 };
	int client = socket(AF_INET, SOCK_STREAM, 0);

	if (write(pipe_fd[1], "x", 1) != 1 || write(sockets[1], "x", 1) != 1 ||
	    semop(semaphores, &op, 1) || connect(client, (const void *)address, sizeof(*address)) ||
	    unlink(file))
		exit(2);
	kill(getpid(), SIGUSR1);
}

static void report(const struct sleeper *s)
{
	if (s->run.result != s->expected || (s->expected < 0 && s->run.error != s->expected_errno))
		printf("%s bad: result %ld errno %d\n", s->name, s->run.result, s->run.error);
	else if (s->timed && (s->run.took < limit_ms - 5 ||
			      (!s->afresh && s->run.took - s->run.waited > limit_ms + 700)))
		printf("%s bad: took %ld of %ld ms\n", s->name, s->run.took, limit_ms);
	else
		printf("%s ok\n", s->name);
}

int main(int argc, char **argv)
{
	char file[] = "/tmp/dyntrace-sleeper-XXXXXX";
	struct sockaddr_in address;

	limit_ms = handshake_option(argc, argv, "ms", 1500);
	prepare(&address);
	int fd = mkstemp(file);
	inotify_add_watch(inotify, file, IN_DELETE_SELF);
	close(fd); /* no descriptor: the file goes at unlink */
	pthread_mutex_lock(&end);
	for (size_t i = 0; i < COUNT; i++)
		pthread_create(&sleepers[i].run.thread, NULL, sleeper_main, &sleepers[i]);
	for (size_t i = 0; i < COUNT; i++)
		while (!is_asleep(&sleepers[i]))
			sched_yield();
	handshake(argc, argv);
	end_them(&address, file);
	pthread_mutex_unlock(&end);
	for (size_t i = 0; i < COUNT; i++)
		pthread_join(sleepers[i].run.thread, NULL);
	semctl(semaphores, 0, IPC_RMID);
	for (size_t i = 0; i < COUNT; i++)
		report(&sleepers[i]);
	return 0;
}
