#include "cpu_samples.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "proc.h"
#include "shared/layout.h"

#define RING_SIZE (8 * DT_PAGE) /* a power of two: 1,300 samples */
#define MAP_SIZE (DT_PAGE + RING_SIZE)
#define INSTRUCTION_BIT 8 /* of sample_regs_user: PERF_REG_X86_IP */

struct thread_samples {
	int fd;
	struct perf_event_mmap_page *map; /* a page; the ring follows */
	uint64_t read_ns; /* CPU time that was read */
};

struct cpu_samples {
	VEC(struct thread_samples) threads;
};

/* A sample with the user's instruction alone. */
struct sample {
	struct perf_event_header head;
	uint64_t abi; /* PERF_SAMPLE_REGS_ABI_NONE: it has no registers of a program */
	uint64_t address;
};

/* ---- begin ----------------------------------------------------------------------------------- */

static int open_event(pid_t tid, bool sees_kernel)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_TASK_CLOCK,
					.sample_period = CPU_SAMPLES_PERIOD,
					.sample_type = PERF_SAMPLE_REGS_USER,
					.sample_regs_user = 1u << INSTRUCTION_BIT,
					.exclude_kernel = !sees_kernel,
					.exclude_hv = 1 };

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* 0, or an errno. */
static int add_thread(struct cpu_samples *samples, pid_t tid)
{
	struct thread_samples one = { .fd = open_event(tid, true) };

	if (one.fd < 0 && (errno == EACCES || errno == EPERM))
		one.fd = open_event(tid, false);
	if (one.fd < 0)
		return errno;
	void *map = mmap(NULL, MAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, one.fd, 0);
	int why = map == MAP_FAILED ? errno : 0;
	one.map = map;
	if (!why && vec_push(&samples->threads, one))
		return 0;
	if (!why)
		munmap(map, MAP_SIZE);
	close(one.fd);
	return why ? why : ENOMEM;
}

/* Threads that are gone meanwhile are no failure. 0, or an errno. */
static int add_process(struct cpu_samples *samples, pid_t pid)
{
	struct tids tids = { 0 };
	_cleanup_error_ struct error *gone =
		threads_list(&(struct proc){ .pid = pid, .pidfd = -1 }, &tids);
	int why = 0;

	for (size_t i = 0; i < tids.count && !why; i++) {
		if (samples->threads.count < CPU_SAMPLES_THREADS)
			why = add_thread(samples, tids.items[i]);
		if (why == ESRCH)
			why = 0;
	}
	vec_free(&tids);
	return why;
}

struct error *cpu_samples_begin(const pid_t *pids, size_t count, struct cpu_samples **ret_samples)
{
	struct cpu_samples *samples = calloc(1, sizeof(*samples));
	int why = samples ? 0 : ENOMEM;

	for (size_t i = 0; i < count && !why; i++)
		why = add_process(samples, pids[i]);
	/* with some of the threads, the samples are still right */
	if (samples && (samples->threads.count || !why)) {
		*ret_samples = samples;
		return NULL;
	}
	cpu_samples_free(samples);
	return error_errno(why, "cannot sample threads (perf_event_open)");
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Copies from the ring, whose bytes may go on at its start. */
static void copy(const struct thread_samples *thread, uint64_t at, void *to, size_t size)
{
	const uint8_t *ring = (const uint8_t *)thread->map + DT_PAGE;

	for (size_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = ring[(at + i) % RING_SIZE];
}

static void add_record(const struct thread_samples *thread, uint64_t at,
		       const struct perf_event_header *head,
		       bool (*is_inside)(const void *context, uint64_t address),
		       const void *context, struct cpu_samples_sum *sum)
{
	if (head->type == PERF_RECORD_LOST) {
		uint64_t words[3] = { 0 }; /* head, id, number */

		copy(thread, at, words, head->size < sizeof(words) ? head->size : sizeof(words));
		sum->lost += words[2];
	} else if (head->type == PERF_RECORD_SAMPLE) {
		struct sample sample = { 0 };

		copy(thread, at, &sample,
		     head->size < sizeof(sample) ? head->size : sizeof(sample));
		sum->taken++;
		sum->inside += sample.abi != PERF_SAMPLE_REGS_ABI_NONE &&
			       is_inside(context, sample.address);
	}
}

static void add_up(struct thread_samples *thread,
		   bool (*is_inside)(const void *context, uint64_t address), const void *context,
		   struct cpu_samples_sum *sum)
{
	uint64_t end = __atomic_load_n(&thread->map->data_head, __ATOMIC_ACQUIRE), ns = 0;
	struct perf_event_header head;

	for (uint64_t at = thread->map->data_tail; at < end; at += head.size) {
		copy(thread, at, &head, sizeof(head));
		if (head.size < sizeof(head))
			break;
		add_record(thread, at, &head, is_inside, context, sum);
	}
	__atomic_store_n(&thread->map->data_tail, end, __ATOMIC_RELEASE);
	if (read(thread->fd, &ns, sizeof(ns)) == sizeof(ns) && ns > thread->read_ns) {
		sum->cpu_ns += ns - thread->read_ns;
		thread->read_ns = ns;
	}
}

struct cpu_samples_sum cpu_samples_read(struct cpu_samples *samples,
					bool (*is_inside)(const void *context, uint64_t address),
					const void *context)
{
	struct cpu_samples_sum sum = { 0 };

	for (size_t i = 0; i < samples->threads.count; i++)
		add_up(&samples->threads.items[i], is_inside, context, &sum);
	return sum;
}

void cpu_samples_free(struct cpu_samples *samples)
{
	if (!samples)
		return;
	for (size_t i = 0; i < samples->threads.count; i++) {
		munmap(samples->threads.items[i].map, MAP_SIZE);
		close(samples->threads.items[i].fd);
	}
	vec_free(&samples->threads);
	free(samples);
}

double cpu_samples_share(const struct cpu_samples_sum *sum)
{
	double all = (double)sum->cpu_ns / CPU_SAMPLES_PERIOD;
	double seen = sum->taken ? (double)sum->inside / (double)sum->taken : 0;

	/* without the kernel's samples, `taken` is less than `all`; with losses, too */
	if (!all)
		return 0;
	double share = ((double)sum->inside + seen * (double)sum->lost) / all;
	return share < 1 ? share : 1;
}
