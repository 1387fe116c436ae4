/*
 * workload.c - the program that every tracer is measured on.
 *
 * usage: workload [--ready-fd N] [--go-fd N]
 *
 * Writes a byte to --ready-fd when it is up and waits for one from --go-fd, so that a tracer can be
 * put in between. Then it obeys commands on stdin until that ends, one per line:
 *
 *   KIND CALLS THREADS	   run that loop CALLS times in each of THREADS threads, each on a CPU of its own
 *
 * and answers each with one line on stdout: for each thread the nanoseconds of its own CPU time and
 * of the wall clock that one call took. Both are given because a tracer that has a reader of its own takes
 * CPU time from two threads on two cores; what a hit costs the thread is its own time.
 *
 * foo and foo6 begin with `push %rbp`: what a uprobe steps over most cheaply short of a nop, and
 * what every tracer here can place. With BENCH_LTTNG each holds a static tracepoint.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef BENCH_LTTNG
#include "lttng_events.h"
#define POINT(...) lttng_ust_tracepoint(dyntrace_bench, __VA_ARGS__)
#else
#define POINT(...) ((void)0)
#endif

/* gcc makes a frame for a function that asks for its frame's address. */
#define WITH_FRAME() __asm__ volatile("" ::"r"(__builtin_frame_address(0)))

#define THREADS_MAX 64
#define RING_WORDS (64u << 10) /* 512 KiB a thread */

int foo(int a, long b, char *c);
long foo6(long a, long b, long c, long d, long e, long f);
void foo_text(const char *text);

/* noipa: some tracers don't keep the registers that -fipa-ra would keep values in over these calls. */
__attribute__((noipa)) int foo(int a, long b, char *c)
{
	POINT(foo);
	WITH_FRAME();
	return a + (int)b;
}

__attribute__((noipa)) long foo6(long a, long b, long c, long d, long e, long f)
{
	POINT(foo6, a, b, c, d, e, f);
	WITH_FRAME();
	return a + f;
}

__attribute__((noipa)) void foo_text(const char *text)
{
	POINT(foo_text, text);
	WITH_FRAME();
}

static __thread uint64_t ring[RING_WORDS];
static __thread uint32_t ring_next;

/* What recording costs at the least: a call that was compiled in, the clock, one store. */
__attribute__((noipa)) static void record(void)
{
	ring[ring_next++ % RING_WORDS] = __builtin_ia32_rdtsc();
	__asm__ volatile("" ::: "memory");
}

/* A call between two readings of the clock, compiled in, and a branch: nothing cheaper tells whether
 * a call took long. */
__attribute__((noipa)) static long timed(long a, long b, long c, long d, long e, long f)
{
	uint64_t start = __builtin_ia32_rdtsc();
	long result = foo6(a, b, c, d, e, f);

	if (__builtin_expect(__builtin_ia32_rdtsc() - start > 1ull << 40, 0))
		ring[ring_next++ % RING_WORDS] = start;
	return result;
}

static void loop_foo(long n)
{
	for (long i = 0; i < n; i++)
		foo((int)i, i, "a text of 20 letters");
}

static void loop_foo6(long n)
{
	for (long i = 0; i < n; i++)
		foo6(i, 2, 3, 4, 5, 6);
}

static void loop_foo_text(long n)
{
	for (long i = 0; i < n; i++)
		foo_text("a text of 20 letters");
}

static void loop_rdtsc(long n)
{
	for (long i = 0; i < n; i++)
		__asm__ volatile("rdtsc" ::: "eax", "edx");
}

static void loop_empty(long n)
{
	for (long i = 0; i < n; i++)
		__asm__ volatile("");
}

static void loop_record(long n)
{
	for (long i = 0; i < n; i++)
		record();
}

static void loop_timed(long n)
{
	for (long i = 0; i < n; i++)
		timed(i, 2, 3, 4, 5, 6);
}

static const struct kind {
	const char *name;
	void (*loop)(long n);
} kinds[] = {
	{ "foo", loop_foo },
	{ "foo6", loop_foo6 },
	{ "foo_text", loop_foo_text },
	{ "rdtsc", loop_rdtsc },
	{ "empty", loop_empty },
	{ "record", loop_record },
	{ "timed", loop_timed },
};

struct job {
	const struct kind *kind; /* NULL: end */
	long calls;
	int threads;
};

struct worker {
	pthread_t thread;
	int cpu;
	double cpu_ns, wall_ns; /* a call */
};

static struct worker workers[THREADS_MAX];
static int worker_count;

static struct job job;
static long job_number; /* of the job that is to be done */
static int running; /* workers that haven't ended it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int arrived; /* workers that stand at the start line */

static void die(const char *what)
{
	fprintf(stderr, "workload: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* All threads of a job begin within some nanoseconds. */
static void start_line(int threads)
{
	__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < threads)
		sched_yield();
}

static void worker_run(struct worker *self, const struct job *j)
{
	double cpu, wall;

	start_line(j->threads);
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	j->kind->loop(j->calls);
	self->cpu_ns = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)j->calls;
	self->wall_ns = (clock_ns(CLOCK_MONOTONIC) - wall) / (double)j->calls;
}

/* The job whose number isn't `done`; waits until there is one. */
static struct job next_job(long done, long *ret_number)
{
	struct job j;

	pthread_mutex_lock(&lock);
	while (job_number == done)
		pthread_cond_wait(&changed, &lock);
	j = job;
	*ret_number = job_number;
	pthread_mutex_unlock(&lock);
	return j;
}

static void job_done(void)
{
	pthread_mutex_lock(&lock);
	running--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void *worker_main(void *arg)
{
	struct worker *self = arg;
	long number = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(self->cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
		die("cannot pin a thread");
	for (;;) {
		struct job j = next_job(number, &number);

		if (self - workers < j.threads)
			worker_run(self, &j);
		job_done();
	}
	return NULL;
}

/* Workers stay: a thread that a tracer has seen once doesn't pay for its first hit again. */
static void start_workers(void)
{
	worker_count = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (worker_count > THREADS_MAX)
		worker_count = THREADS_MAX;
	for (int i = 0; i < worker_count; i++) {
		workers[i].cpu = i;
		errno = pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
		if (errno)
			die("cannot start a thread");
	}
}

static void run_job(const struct job *j)
{
	pthread_mutex_lock(&lock);
	job = *j;
	running = worker_count;
	__atomic_store_n(&arrived, 0, __ATOMIC_SEQ_CST);
	job_number++;
	pthread_cond_broadcast(&changed);
	while (running > 0)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < j->threads; i++)
		printf("%s%.4f %.4f", i ? " " : "", workers[i].cpu_ns, workers[i].wall_ns);
	printf("\n");
	fflush(stdout);
}

static const struct kind *kind_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	}
	return NULL;
}

static void obey(const char *line)
{
	struct job j;
	char name[32];

	if (sscanf(line, "%31s %ld %d", name, &j.calls, &j.threads) != 3 || j.calls < 1 ||
	    j.threads < 1 || j.threads > worker_count || !(j.kind = kind_find(name))) {
		fprintf(stderr, "workload: cannot do: %s", line);
		exit(2);
	}
	run_job(&j);
}

static int fd_option(int argc, char **argv, const char *name)
{
	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], name) == 0)
			return atoi(argv[i + 1]);
	}
	return -1;
}

static void handshake(int ready_fd, int go_fd)
{
	char byte = 'r';

	if (ready_fd >= 0 && write(ready_fd, &byte, 1) != 1)
		die("--ready-fd");
	if (go_fd >= 0 && read(go_fd, &byte, 1) != 1)
		die("--go-fd");
}

int main(int argc, char **argv)
{
	char line[128];

	start_workers();
	handshake(fd_option(argc, argv, "--ready-fd"), fd_option(argc, argv, "--go-fd"));
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
