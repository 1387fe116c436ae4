/*
 * The built agent, in this process, hit by a hand-written trampoline: every hit is in the trace or
 * counted as lost, whatever happens meanwhile.
 */
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>

#include "rig.h"
#include "control/record/pool.h"
#include "shared/returns.h"
#include "thin.h"

static volatile bool stop_reading;

static void test_one_thread(void **unused)
{
	struct rig_trace trace;

	rig_up(4, 40, 0);
	rig_open(&trace);
	for (uint64_t i = 0; i < 10000; i++) {
		assert_int_equal(rig_hit(RIG_BARE, 0), 1);
		assert_int_equal(rig_hit(RIG_SIX, i), 1);
		assert_int_equal(rig_hit(RIG_WORD, i), 1);
	}
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 30000);
	assert_int_equal(trace.totals.lost, 0);
	assert_int_equal(trace.totals.holes, 0);
	assert_int_equal(trace.types.items[RIG_BARE].hits, 10000);
	assert_int_equal(trace.types.items[RIG_SIX].hits, 10000);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 30000);
	assert_int_equal(verdict.discarded, 0);
	assert_int_equal(rig_judge(&trace, "arg0 = 9999, arg1 = 10000, arg2 = 10001").events, 1);
	rig_remove(&trace);
	rig_down();
}

/* B5: the descriptor of the thread's chunk number `sequence`, whose events are all of two fields;
 * gives its end. */
static uint64_t check_published(uint32_t sequence, uint32_t count, uint64_t after)
{
	uint32_t chunks = rig_control->small_count + rig_control->big_count, index = 0;
	const struct dt_chunk *descs =
		(struct dt_chunk *)((char *)rig_pool + dt_descs_offset(chunks));
	const uint64_t *words = (uint64_t *)((char *)rig_pool + dt_words_offset());

	while (index < chunks && descs[index].sequence != sequence)
		index++;
	assert_true(index < chunks);
	const uint64_t *event = (uint64_t *)((char *)rig_pool +
					     dt_chunk_offset(rig_control->chunks_offset,
							     rig_control->small_count, index));
	uint64_t clock = descs[index].begin;
	assert_int_equal(DT_CHUNK_STATE(words[index]), DT_CHUNK_PUBLISHED);
	assert_int_equal(descs[index].count, count);
	assert_int_equal(descs[index].used, count * 24);
	assert_true(clock >= after);
	for (uint32_t i = 0; i < count; i++, event += 3) {
		uint64_t ahead = ((*event >> DT_EVENT_ID_BITS) - clock) & ((1ULL << 40) - 1);

		assert_false(ahead >> DT_CLOCK_GAP_SHIFT); /* B3, B6 */
		clock += ahead;
	}
	assert_true(clock <= descs[index].end);
	return descs[index].end;
}

/* A pool that nobody reads: the first hits fill it, the others are counted (B7). */
static void test_pool_full(void **unused)
{
	struct rig_trace trace;
	uint64_t recorded = 0, skipped = 0;

	rig_up(1, 2, 0);
	rig_open(&trace);
	for (int i = 0; i < 20000; i++) {
		if (rig_hit(RIG_TWO, 0))
			recorded++;
		else
			skipped++;
	}
	/* 4096 / 24 = 170; 65536 / 24 = 2730. */
	assert_int_equal(recorded, 170 + 2 * 2730);
	uint64_t end = check_published(0, 170, 0);
	end = check_published(1, 2730, end);
	check_published(2, 2730, end);
	size_t chunks;
	RIG_OK(reader_drain(trace.reader, &chunks));
	assert_int_equal(chunks, 3);
	for (int i = 0; i < 100; i++)
		recorded += (uint64_t)rig_hit(RIG_TWO, 0);
	rig_finish(&trace);
	assert_int_equal(recorded, 170 + 2 * 2730 + 100);
	assert_int_equal(trace.totals.events, recorded);
	assert_int_equal(trace.totals.lost, skipped);
	assert_int_equal(trace.types.items[RIG_TWO].lost, skipped);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, recorded);
	assert_int_equal(verdict.discarded, skipped);
	rig_remove(&trace);
	rig_down();
}

/* Losses at the very end are in the trace too, and those of a thread that never got a chunk. */
static void test_losses_with_no_packet_behind(void **unused)
{
	struct rig_trace trace;

	rig_up(1, 0, 0);
	rig_open(&trace);
	int recorded = 0;
	for (int i = 0; i < 600; i++)
		recorded += rig_hit(RIG_BARE, 0);
	assert_int_equal(recorded, 512);
	rig_finish(&trace);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 512);
	assert_int_equal(verdict.discarded, 88);
	rig_remove(&trace);
	rig_down();

	rig_up(1, 0, 0);
	rig_pool->small_free = 0;
	rig_open(&trace);
	for (int i = 0; i < 7; i++)
		assert_int_equal(rig_hit(RIG_BARE, 0), 0);
	rig_finish(&trace);
	assert_int_equal(trace.totals.lost, 7);
	verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 0);
	assert_int_equal(verdict.discarded, 7);
	rig_remove(&trace);
	rig_down();
}

struct reading {
	struct rig_trace *trace;
	pthread_t thread;
};

static void *keep_reading(void *argument)
{
	struct rig_trace *trace = argument;
	size_t chunks;
	unsigned turn = 0;

	while (!__atomic_load_n(&stop_reading, __ATOMIC_ACQUIRE)) {
		reader_wait(trace->reader, 5);
		RIG_OK(reader_drain(trace->reader, &chunks));
		if (turn++ % 8 == 0)
			RIG_OK(reader_flush(trace->reader));
		if (turn % 16 == 0)
			RIG_OK(reader_reap(trace->reader));
	}
	return NULL;
}

static void start_reading(struct reading *reading, struct rig_trace *trace)
{
	reading->trace = trace;
	stop_reading = false;
	assert_int_equal(pthread_create(&reading->thread, NULL, keep_reading, trace), 0);
}

static void end_reading(struct reading *reading)
{
	__atomic_store_n(&stop_reading, true, __ATOMIC_RELEASE);
	pthread_join(reading->thread, NULL);
}

#define THREADS 12
#define THREAD_HITS 30000

struct worker {
	pthread_t thread;
	uint32_t tid;
	uint64_t recorded, skipped;
};

static void *work(void *argument)
{
	struct worker *worker = argument;

	worker->tid = (uint32_t)gettid();
	for (int i = 0; i < THREAD_HITS; i++) {
		if (rig_hit(RIG_TWO, (uint64_t)i))
			worker->recorded++;
		else
			worker->skipped++;
	}
	return NULL;
}

static void test_many_threads(void **unused)
{
	struct worker workers[THREADS] = { 0 };
	struct rig_trace trace;
	struct reading reading;
	uint64_t recorded = 0, skipped = 0;
	char tid[32];

	rig_up(16, 30, 0);
	rig_open(&trace);
	start_reading(&reading, &trace);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		recorded += workers[i].recorded;
		skipped += workers[i].skipped;
	}
	end_reading(&reading);
	rig_finish(&trace);
	assert_int_equal(recorded + skipped, THREADS * THREAD_HITS);
	assert_int_equal(trace.totals.events, recorded);
	assert_int_equal(trace.totals.lost, skipped);
	assert_int_equal(trace.totals.holes, 0);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, recorded);
	assert_int_equal(verdict.discarded, skipped);
	for (int i = 0; i < THREADS; i += 5) {
		snprintf(tid, sizeof(tid), " tid = %u,", workers[i].tid);
		assert_int_equal(rig_judge(&trace, tid).events, workers[i].recorded);
	}
	rig_remove(&trace);
	rig_down();
}

/* (T2) The controller took the thread for dead and freed its record, as its tid was another's in
 * between: the next time it looks, the thread takes one again. */
static void test_record_was_freed(void **unused)
{
	rig_up(1, 4, 0);
	assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	struct dt_slot *slot = rig_my_slot();
	assert_non_null(slot);
	struct dt_thread *record = &rig_pool->threads[slot->thread];
	assert_int_equal(record->claim, 2);
	record->pid = record->tid = record->chunks = 0;
	record->claim = 0;
	for (int i = 0; i < 200; i++) /* more than a small chunk holds */
		assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	record = &rig_pool->threads[slot->thread];
	assert_int_equal(record->claim, 2);
	assert_int_equal(record->tid, gettid());
	rig_down();
}

/* (B9) A published chunk with an event that its hit has not completed: the ring goes around it. */
static void test_overwrite_passes_over_a_hole(void **unused)
{
	const uint64_t *words;
	uint64_t *event, word;

	rig_up(0, 3, DT_OVERWRITE);
	for (unsigned id = 0; id < RIG_TYPES; id++)
		rig_control->sizes[id] = rig_sizes[id];
	words = (const uint64_t *)((char *)rig_pool + dt_words_offset());
	event = (uint64_t *)((char *)rig_pool + dt_chunk_offset(rig_control->chunks_offset, 0, 0));
	for (int i = 0; i < 3000; i++) /* 2730 in a chunk */
		assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	word = words[0];
	assert_int_equal(DT_CHUNK_STATE(word), DT_CHUNK_PUBLISHED);
	event[3] |= DT_EVENT_PENDING; /* of the second event */
	for (int i = 0; i < 20000; i++)
		assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	assert_int_equal(words[0], word);
	assert_true(rig_pool->overwritten > 0);
	event[3] &= ~(uint64_t)DT_EVENT_PENDING;
	for (int i = 0; i < 20000; i++)
		assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	assert_int_not_equal(words[0], word);
	rig_down();
}

/* T2: thread blocks, tids and records are recycled; each thread's events are kept. */
static void *work_little(void *argument)
{
	uint64_t *recorded = argument;

	for (int i = 0; i < 3; i++)
		*recorded += (uint64_t)rig_hit(RIG_TWO, 0);
	return NULL;
}

/* Reaps until no thread has a record: pthread_join returns when a thread is about to end. */
static void reap_all(struct reader *reader)
{
	uint32_t used;

	do {
		RIG_OK(reader_reap(reader));
		used = 0;
		for (uint32_t i = 0; i < DT_THREADS_MAX; i++)
			used += rig_pool->threads[i].claim != 0;
	} while (used);
}

/* (T1, T2) Slots, records and chunks of 2,000 dead threads are taken by the next ones. */
static void test_threads_come_and_go(void **unused)
{
	struct rig_trace trace;
	struct reading reading;
	uint64_t recorded = 0;

	rig_up(200, 4, 0);
	rig_open(&trace);
	start_reading(&reading, &trace);
	for (int i = 0; i < 2000; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, work_little, &recorded), 0);
		pthread_join(thread, NULL);
	}
	end_reading(&reading);
	reap_all(trace.reader);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, recorded);
	assert_int_equal(recorded + trace.totals.lost, 6000);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, recorded);
	assert_int_equal(verdict.discarded, trace.totals.lost);
	rig_remove(&trace);
	rig_down();
}

/* ---- signals ------------------------------------------------------------------------------ */

static volatile uint64_t handler_recorded, handler_skipped;

static void on_signal(int number)
{
	(void)number;
	for (int i = 0; i < 40; i++) {
		if (rig_hit(RIG_SIX, 0))
			handler_recorded++;
		else
			handler_skipped++;
	}
}

static void test_nested_signals(void **unused)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct itimerval often = { { 0, 150 }, { 0, 150 } }, never = { 0 };
	struct rig_trace trace;
	struct reading reading;
	uint64_t recorded = 0, skipped = 0;
	sigset_t set;

	rig_up(4, 60, 0);
	rig_open(&trace);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	start_reading(&reading, &trace);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	handler_recorded = handler_skipped = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < THIN(1000000, 100000) || handler_recorded + handler_skipped < 40 * 100;
	     i++) {
		if (rig_hit(RIG_BARE, 0))
			recorded++;
		else
			skipped++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	end_reading(&reading);
	rig_finish(&trace);
	assert_int_equal(trace.types.items[RIG_BARE].hits, recorded);
	assert_int_equal(trace.types.items[RIG_SIX].hits, handler_recorded);
	assert_int_equal(trace.types.items[RIG_BARE].lost, skipped);
	assert_int_equal(trace.types.items[RIG_SIX].lost, handler_skipped);
	assert_int_equal(trace.totals.holes, 0);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, recorded + handler_recorded);
	assert_int_equal(verdict.discarded, skipped + handler_skipped);
	rig_remove(&trace);
	rig_down();
}

/* ---- a signal at every instruction -------------------------------------------------------- */

/*
 * A child makes one hit; its parent lets it run `steps` instructions, then sends a signal whose
 * handler hits often enough to change chunks, and lets it go on. Every instruction of the fast and
 * of the slow path is interrupted once.
 */
struct stepping {
	volatile uint32_t recorded, skipped; /* by the hit that is interrupted */
	volatile uint32_t inner_recorded, inner_skipped;
	volatile bool before, after; /* around that hit */
};

static struct stepping *stepping;

static void on_step_signal(int number)
{
	(void)number;
	for (int i = 0; i < 200; i++) {
		if (rig_hit(RIG_SIX, 0))
			stepping->inner_recorded++;
		else
			stepping->inner_skipped++;
	}
}

__attribute__((noinline)) static void stepping_child(unsigned warm_up)
{
	struct sigaction action = { .sa_handler = on_step_signal };

	sigaction(SIGUSR1, &action, NULL);
	for (unsigned i = 0; i < warm_up; i++)
		rig_hit(RIG_BARE, 0);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	stepping->before = true;
	if (rig_hit(RIG_TWO, 7))
		stepping->recorded++;
	else
		stepping->skipped++;
	stepping->after = true;
	raise(SIGSTOP);
	_exit(0);
}

static void step_to(pid_t child, volatile bool *mark)
{
	int status;

	while (!*mark) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	}
}

static unsigned step_and_interrupt(unsigned warm_up, unsigned steps)
{
	int status;
	unsigned stepped = 0;

	memset(stepping, 0, sizeof(*stepping));
	pid_t child = fork();
	if (!child)
		stepping_child(warm_up);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	step_to(child, &stepping->before);
	for (; stepped < steps && !stepping->after; stepped++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	}
	assert_int_equal(ptrace(PTRACE_CONT, child, NULL, SIGUSR1), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1) { /* it was blocked until now */
		assert_int_equal(ptrace(PTRACE_CONT, child, NULL, SIGUSR1), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
	}
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
		fail_msg("after %u instructions: status %x", steps, status);
	assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return stepped;
}

/* How many instructions were stepped over before the signal. */
static unsigned interrupt_at(unsigned warm_up, uint32_t small, uint32_t big, unsigned steps)
{
	struct rig_trace trace;

	rig_up(small, big, DT_FOLLOW_FORK);
	rig_open(&trace);
	unsigned stepped = step_and_interrupt(warm_up, steps);
	rig_finish(&trace);
	assert_int_equal(stepping->recorded + stepping->skipped, 1);
	assert_int_equal(stepping->inner_recorded + stepping->inner_skipped, 200);
	assert_int_equal(trace.types.items[RIG_TWO].hits, stepping->recorded);
	assert_int_equal(trace.types.items[RIG_SIX].hits, stepping->inner_recorded);
	assert_int_equal(trace.types.items[RIG_TWO].lost, stepping->skipped);
	assert_int_equal(trace.types.items[RIG_SIX].lost, stepping->inner_skipped);
	assert_int_equal(trace.totals.holes, 0);
	if (steps % 100 == 0)
		assert_int_equal(rig_judge(&trace, NULL).events, trace.totals.events);
	rig_remove(&trace);
	rig_down();
	return stepped;
}

/* T1, B2: at every instruction before signals are blocked and after they are allowed again, at some
 * between. */
static unsigned interrupt_everywhere(unsigned warm_up, uint32_t small, uint32_t big)
{
	unsigned total = interrupt_at(warm_up, small, big, UINT_MAX);

	/* (of what runs here only the reader has sanitizers) */
	for (unsigned steps = 0; steps < total; steps += THIN(1, 32)) {
		if (steps < 130 || steps + 60 > total || steps % 16 == 0)
			interrupt_at(warm_up, small, big, steps);
	}
	return total;
}

static void test_signal_at_every_instruction(void **unused)
{
	stepping = mmap(NULL, sizeof(*stepping), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	/* The fast path; the first hit of a thread; a chunk that is full; a pool that is empty. */
	assert_in_range(interrupt_everywhere(1, 4, 8), 40, 200);
	assert_in_range(interrupt_everywhere(0, 4, 8), 200, 5000);
	assert_in_range(interrupt_everywhere(511, 4, 8), 100, 5000);
	assert_in_range(interrupt_everywhere(512, 1, 0), 50, 5000);
	munmap(stepping, sizeof(*stepping));
}

/* ---- forks -------------------------------------------------------------------------------- */

static void fork_and_hit(uint32_t flags, uint64_t expected_in_child)
{
	struct rig_trace trace;
	char pid[32];

	rig_up(8, 8, flags);
	rig_open(&trace);
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	pid_t child = fork();
	if (!child) {
		uint64_t recorded = 0;

		for (int i = 0; i < 3000; i++)
			recorded += (uint64_t)rig_hit(RIG_TWO, 0);
		_exit(recorded == expected_in_child ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	rig_finish(&trace);
	assert_int_equal(trace.types.items[RIG_BARE].hits, 2);
	assert_int_equal(trace.types.items[RIG_TWO].hits, expected_in_child);
	assert_int_equal(trace.totals.lost, 0);
	snprintf(pid, sizeof(pid), " pid = %d,", child);
	assert_int_equal(rig_judge(&trace, pid).events, expected_in_child);
	rig_remove(&trace);
	rig_down();
}

static void test_fork(void **unused)
{
	fork_and_hit(DT_FOLLOW_FORK, 3000);
	fork_and_hit(0, 0);
}

/* The control page names memory of function exits that this child hasn't got. */
static void test_fork_before_exits(void **unused)
{
	void *hole = mmap(NULL, sizeof(struct dt_returns), PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int status;

	rig_up(8, 8, DT_FOLLOW_FORK);
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	rig_control->returns = (uint64_t)hole;
	pid_t child = fork();
	if (!child)
		_exit(rig_hit(RIG_TWO, 0) == 1 && !rig_state->returns ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	rig_control->returns = 0;
	rig_down();
	munmap(hole, sizeof(struct dt_returns));
}

static bool has_register(const struct user_regs_struct *regs, uint64_t value)
{
	const unsigned long long *words = (const unsigned long long *)regs;

	for (size_t i = 0; i < sizeof(*regs) / sizeof(*words); i++) {
		if (words[i] == value)
			return true;
	}
	return false;
}

/* (B9) A thread is held just when it has read where the ring goes on. Another one fills the chunk
 * there meanwhile: the first takes none of its events away, while other chunks are free. */
static void test_overwrite_takes_nothing_new(void **unused)
{
	const uint32_t place = 0x1357bd00; /* of the ring; nothing else is that number */
	struct user_regs_struct regs;
	int status, steps = 0;

	rig_up(8, 8, DT_OVERWRITE | DT_FOLLOW_FORK);
	for (unsigned id = 0; id < RIG_TYPES; id++)
		rig_control->sizes[id] = rig_sizes[id];
	rig_pool->small_hint = place;
	pid_t child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(rig_hit(RIG_TWO, 0) == 1 ? 0 : 1);
	}
	do {
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSTOPPED(status) && steps++ < 100000);
		assert_int_equal(ptrace(PTRACE_GETREGS, child, 0, &regs), 0);
	} while (!has_register(&regs, place) && !ptrace(PTRACE_SINGLESTEP, child, 0, 0));
	for (int i = 0; i < 200; i++) /* more than a small chunk holds */
		assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	assert_int_equal(ptrace(PTRACE_DETACH, child, 0, 0), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rig_pool->overwritten, 0);
	rig_down();
}

/* A fork system call that nobody told libc about: the thread block says the parent's tid. */
static void test_bare_fork(void **unused)
{
	struct rig_trace trace;
	char tid[32];

	rig_up(8, 8, DT_FOLLOW_FORK);
	rig_open(&trace);
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	pid_t child = (pid_t)syscall(SYS_fork);
	if (!child) {
		int recorded = 0;

		for (int i = 0; i < 1000; i++)
			recorded += rig_hit(RIG_TWO, 0);
		syscall(SYS_exit_group, recorded == 1000 ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	rig_finish(&trace);
	snprintf(tid, sizeof(tid), " tid = %d,", child);
	assert_int_equal(rig_judge(&trace, tid).events, 1000);
	rig_remove(&trace);
	rig_down();
}

static uint64_t vfork_recorded;

static void test_vfork(void **unused)
{
	struct rig_trace trace;
	char tid[32];

	/* Without following forks: until it execs, a vfork child is its parent's thread. */
	rig_up(8, 8, 0);
	rig_open(&trace);
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	vfork_recorded = 0;
	pid_t child = vfork();
	if (!child) {
		for (int i = 0; i < 3000; i++)
			vfork_recorded += (uint64_t)rig_hit(RIG_TWO, 0);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	rig_finish(&trace);
	assert_int_equal(vfork_recorded, 3000);
	assert_int_equal(trace.totals.events, 3002);
	snprintf(tid, sizeof(tid), " tid = %d,", getpid());
	assert_int_equal(rig_judge(&trace, tid).events, 3002);
	rig_remove(&trace);
	rig_down();
}

/* ---- slots -------------------------------------------------------------------------------- */

static uint64_t fs_base(void)
{
	uint64_t base;

	__asm__ volatile("rdfsbase %0" : "=r"(base));
	return base;
}

/* Occupies the places where this thread's slot would be. */
static void occupy(uint32_t from, uint32_t to, uint32_t tid)
{
	uint32_t home = dt_hash(fs_base()) >> DT_SLOT_SHIFT;

	for (uint32_t i = from; i < to; i++) {
		struct dt_slot *slot = &rig_slots[(home + i) % DT_SLOTS];

		slot->key = 0x1000 + i;
		slot->real_tid = tid;
		slot->tid = ~0u;
	}
}

static void test_hash_collision(void **unused)
{
	struct rig_trace trace;

	rig_up(8, 8, 0);
	rig_open(&trace);
	occupy(0, 5, (uint32_t)getpid());
	for (int i = 0; i < 5000; i++)
		assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	uint32_t home = dt_hash(fs_base()) >> DT_SLOT_SHIFT;
	assert_ptr_equal(rig_my_slot(), &rig_slots[(home + 5) % DT_SLOTS]);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 5000);
	rig_remove(&trace);
	rig_down();
}

static void test_no_slot(void **unused)
{
	struct rig_trace trace;

	rig_up(8, 8, 0);
	rig_open(&trace);
	occupy(0, DT_SLOT_PROBES, (uint32_t)getpid());
	for (int i = 0; i < 30; i++)
		assert_int_equal(rig_hit(RIG_TWO, 0), 0);
	assert_int_equal(rig_pool->lost_homeless, 30);
	/* One of their threads dies: its place is taken. */
	uint32_t home = dt_hash(fs_base()) >> DT_SLOT_SHIFT;
	rig_slots[(home + 9) % DT_SLOTS].real_tid = 0x7ffffff0;
	assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	assert_ptr_equal(rig_my_slot(), &rig_slots[(home + 9) % DT_SLOTS]);
	rig_finish(&trace);
	assert_int_equal(trace.totals.lost, 30);
	assert_int_equal(trace.types.items[RIG_TWO].lost, 30);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 1);
	assert_int_equal(verdict.discarded, 30);
	rig_remove(&trace);
	rig_down();
}

static void test_no_thread_record(void **unused)
{
	rig_up(8, 8, 0);
	for (uint32_t i = 0; i < DT_THREADS_MAX; i++)
		rig_pool->threads[i].claim = 2;
	for (int i = 0; i < 5; i++)
		assert_int_equal(rig_hit(RIG_BARE, 0), 0);
	assert_int_equal(rig_pool->lost_homeless, 5);
	assert_int_equal(rig_pool->tallies[RIG_BARE].lost, 5);
	/* (T6) Nobody reads all records again: no record was freed, as far as the agent is told. */
	rig_pool->threads[77].claim = 0;
	assert_int_equal(rig_hit(RIG_BARE, 0), 0);
	assert_int_equal(rig_pool->lost_homeless, 6);
	/* The hint is late: a thread that took a record long ago has stored it just now. */
	rig_pool->threads[77].claim = 2;
	pool_free_thread(&(struct pool){ .base = rig_pool }, 77);
	rig_pool->thread_hint = 78;
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	assert_int_equal(rig_pool->threads[77].tid, getpid());
	rig_down();
}

static void test_no_system_calls(void **unused)
{
	rig_up(8, 8, DT_NO_SYSCALLS);
	for (int i = 0; i < 5; i++)
		assert_int_equal(rig_hit(RIG_BARE, 0), 0);
	assert_int_equal(rig_pool->lost_homeless, 5);
	assert_int_equal(rig_pool->tallies[RIG_BARE].lost, 5);
	rig_down();
}

/* A thread with no FS base at all has a slot by its tid, and moves when its block can be read. */
static void test_no_thread_block(void **unused)
{
	struct rig_trace trace;
	int recorded = 0;

	rig_up(8, 8, 0);
	rig_open(&trace);
	uint64_t base = fs_base();
	for (int i = 0; i < 700; i++) {
		__asm__ volatile("wrfsbase %0" : : "r"(0ULL));
		recorded += rig_hit_raw(RIG_BARE, 8, 0);
		__asm__ volatile("wrfsbase %0" : : "r"(base));
	}
	assert_int_equal(recorded, 700);
	assert_null(rig_my_slot());
	assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	assert_non_null(rig_my_slot());
	assert_int_equal(rig_my_slot()->tid_offset, 0x2d0);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 701);
	char tid[32];
	snprintf(tid, sizeof(tid), " tid = %d,", getpid());
	assert_int_equal(rig_judge(&trace, tid).events, 701);
	uint32_t records = 0;
	for (uint32_t i = 1; i < DT_THREADS_MAX; i++)
		records += rig_pool->threads[i].claim != 0;
	assert_int_equal(records, 1); /* it went on with the same one */
	rig_remove(&trace);
	rig_down();
}

/* ---- the clock ---------------------------------------------------------------------------- */

static void test_clock_gap_and_step_back(void **unused)
{
	struct rig_trace trace;

	rig_up(8, 8, 0);
	rig_open(&trace);
	for (int i = 0; i < 10; i++)
		assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	uint32_t chunk = rig_my_slot()->chunk;
	rig_my_slot()->last -= 1ULL << 39; /* as if it had slept */
	assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	assert_int_not_equal(rig_my_slot()->chunk, chunk);
	chunk = rig_my_slot()->chunk;
	rig_my_slot()->last += 100000; /* another CPU is a little behind: waited out */
	assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	assert_int_equal(rig_my_slot()->chunk, chunk);
	rig_my_slot()->last += 1ULL << 50; /* the clock was set back */
	assert_int_equal(rig_hit(RIG_TWO, 0), 1);
	assert_int_not_equal(rig_my_slot()->chunk, chunk);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 13);
	assert_int_equal(rig_judge(&trace, NULL).events, 13);
	rig_remove(&trace);
	rig_down();
}

/* ---- what dt_slow keeps ------------------------------------------------------------------- */

struct kept {
	uint64_t rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, rbp, flags, rcx;
};

void call_slow(struct kept *before_and_after, uint64_t id, uint64_t size);

__asm__(".text\n"
	"call_slow:\n"
	"	pushq %rbx; pushq %rbp; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
	"	pushq %rdi\n"
	"	movq %rsi, %rax\n"
	"	movq rig_control(%rip), %rbx\n"
	"	pushq 88(%rdi)\n"
	"	movq 0(%rdi), %rsi; movq 16(%rdi), %r8; movq 24(%rdi), %r9; movq 32(%rdi), %r10\n"
	"	movq 40(%rdi), %r11; movq 48(%rdi), %r12; movq 56(%rdi), %r13; movq 64(%rdi), "
	"%r14\n"
	"	movq 72(%rdi), %r15; movq 80(%rdi), %rbp; movq 8(%rdi), %rdi\n"
	"	popfq\n"
	"	call *rig_slow(%rip)\n"
	"	pushfq\n"
	"	pushq $0; popfq\n"
	"	xchgq %rdi, 8(%rsp)\n"
	"	movq %rsi, 0(%rdi); movq %r8, 16(%rdi); movq %r9, 24(%rdi); movq %r10, 32(%rdi)\n"
	"	movq %r11, 40(%rdi); movq %r12, 48(%rdi); movq %r13, 56(%rdi); movq %r14, "
	"64(%rdi)\n"
	"	movq %r15, 72(%rdi); movq %rbp, 80(%rdi); popq 88(%rdi); movq %rcx, 96(%rdi)\n"
	"	popq 8(%rdi)\n"
	"	popq %r15; popq %r14; popq %r13; popq %r12; popq %rbp; popq %rbx\n"
	"	ret\n");

static void test_registers_kept(void **unused)
{
	static const uint64_t flags[] = { 0x202, 0x602, 0x40202, 0x40602 }; /* none, DF, AC, both */

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		rig_up(8, 8, 0);
		/* The long way, the cheap way, and when there is nothing to be had. */
		for (int way = 0; way < 3; way++) {
			struct kept kept = { 101, 102, 103, 104, 105,	   106, 107,
					     108, 109, 110, 111, flags[i], 1 };

			if (way == 2) {
				rig_my_slot()->limit = 0;
				rig_my_slot()->reserve = 0;
				rig_pool->small_free = rig_pool->big_free = 0;
			}
			call_slow(&kept, RIG_BARE, 8);
			uint64_t *values = (uint64_t *)&kept;
			for (uint64_t r = 0; r < 11; r++)
				assert_int_equal(values[r], 101 + r);
			assert_int_equal(kept.flags & 0x40400, flags[i] & 0x40400);
			if (way == 2)
				assert_int_equal(kept.rcx, 0);
			else
				assert_ptr_equal((void *)kept.rcx, rig_my_slot());
		}
		sigset_t mask;
		sigprocmask(SIG_SETMASK, NULL, &mask);
		for (int signal = 1; signal < 64; signal++)
			assert_int_not_equal(sigismember(&mask, signal), 1);
		assert_int_equal(rig_state->stacks_busy, 0);
		rig_down();
	}
}

/* How much of the target's stack a hit takes: it is run on a small one that was painted before. */
int hit_on_stack(uint64_t *top);

__asm__(".text\n"
	"hit_on_stack:\n"
	"	pushq %rbp\n"
	"	movq %rsp, %rbp\n"
	"	movq %rdi, %rsp\n"
	"	movl $1, %edi\n"
	"	movl $8, %esi\n"
	"	call rig_hit_raw\n"
	"	movq %rbp, %rsp\n"
	"	popq %rbp\n"
	"	ret\n");

static size_t stack_used(void)
{
	static uint64_t stack[512];
	size_t i = 0;

	for (size_t j = 0; j < 512; j++)
		stack[j] = 0x5a5a5a5a5a5a5a5a;
	hit_on_stack(stack + 512);
	while (stack[i] == 0x5a5a5a5a5a5a5a5a)
		i++;
	return (512 - i) * 8 - 16; /* rig_hit_raw's own: return address and rbx */
}

static void test_little_stack(void **unused)
{
	rig_up(1, 1, 0);
	assert_in_range(stack_used(), 8, 200); /* the first hit */
	rig_my_slot()->limit = 1;
	assert_in_range(stack_used(), 8, 200); /* changes chunks */
	rig_my_slot()->limit = 0;
	rig_pool->small_free = rig_pool->big_free = 0;
	assert_in_range(stack_used(), 8, 200); /* lost */
	rig_down();
	rig_up(1, 1, DT_NO_SYSCALLS);
	assert_in_range(stack_used(), 8, 200);
	rig_down();
}

/* All stacks are held, by nobody: the hit is given up after a while, and counted. */
static void test_no_stack(void **unused)
{
	rig_up(1, 1, 0);
	rig_state->stacks_busy = ~0ULL;
	assert_int_equal(rig_hit(RIG_BARE, 0), 0);
	assert_int_equal(rig_pool->lost_homeless, 1);
	rig_state->stacks_busy = ~(1ULL << 63);
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	assert_int_equal(rig_state->stacks_busy, ~(1ULL << 63));
	rig_down();
}

static void *release_stacks(void *unused)
{
	usleep(100000);
	__atomic_store_n(&rig_state->stacks_busy, 0, __ATOMIC_SEQ_CST);
	return NULL;
}

/* All stacks are held by threads that wait for the kernel: the hit waits for them. */
static void test_stacks_come_back(void **unused)
{
	pthread_t releaser;

	rig_up(1, 1, 0);
	rig_state->stacks_busy = ~0ULL;
	assert_int_equal(pthread_create(&releaser, NULL, release_stacks, NULL), 0);
	assert_int_equal(rig_hit(RIG_BARE, 0), 1);
	assert_int_equal(pthread_join(releaser, NULL), 0);
	assert_int_equal(rig_pool->lost_homeless, 0);
	assert_int_equal(rig_state->stacks_busy, 0);
	rig_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_pool_full),
		cmocka_unit_test(test_losses_with_no_packet_behind),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_threads_come_and_go),
		cmocka_unit_test(test_record_was_freed),
		cmocka_unit_test(test_overwrite_passes_over_a_hole),
		cmocka_unit_test(test_nested_signals),
		cmocka_unit_test(test_signal_at_every_instruction),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_before_exits),
		cmocka_unit_test(test_overwrite_takes_nothing_new),
		cmocka_unit_test(test_bare_fork),
		cmocka_unit_test(test_vfork),
		cmocka_unit_test(test_hash_collision),
		cmocka_unit_test(test_no_slot),
		cmocka_unit_test(test_no_thread_record),
		cmocka_unit_test(test_no_system_calls),
		cmocka_unit_test(test_no_thread_block),
		cmocka_unit_test(test_clock_gap_and_step_back),
		cmocka_unit_test(test_registers_kept),
		cmocka_unit_test(test_little_stack),
		cmocka_unit_test(test_no_stack),
		cmocka_unit_test(test_stacks_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
