/*
 * floor.c - the cost of each part of a trampoline, in units of one rdtsc.
 *
 * usage: floor [--threads N] [--rounds N] [--calls N] [--pool KIB]
 *
 * Every variant of variants.S runs once in every round; the minimum over the rounds counts. The
 * cost is (loop with the probe) - (loop without). A thread cycles through --pool KiB of chunks of
 * 64 KiB. After each loop the bytes that were reserved are compared with the hits that were made.
 */
#include <asm/prctl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../src/shared/layout.h"
#include "offsets.h"

_Static_assert(SLOT_KEY == offsetof(struct dt_slot, key), "key");
_Static_assert(SLOT_RESERVE == offsetof(struct dt_slot, reserve), "reserve");
_Static_assert(SLOT_LIMIT == offsetof(struct dt_slot, limit), "limit");
_Static_assert(SLOT_TID == offsetof(struct dt_slot, tid), "tid");
_Static_assert(SLOT_TID_OFFSET == offsetof(struct dt_slot, tid_offset), "tid_offset");
_Static_assert(SLOT_LAST == offsetof(struct dt_slot, last), "last");
_Static_assert(SLOT_EVENTS == offsetof(struct dt_slot, events), "events");
_Static_assert(STATE_SLOTS == offsetof(struct dt_state, slots), "slots");
_Static_assert(HASH_MULTIPLIER == DT_HASH_MULTIPLIER, "multiplier");
_Static_assert(HASH_SHIFT == DT_HASH_SHIFT, "shift");
_Static_assert(HASH_MASK == DT_HASH_MASK, "mask");
_Static_assert(GAP_SHIFT == DT_CLOCK_GAP_SHIFT, "gap");
_Static_assert(PENDING == DT_EVENT_PENDING, "pending");

#define THREADS_MAX 2
#define POOL_SIZE (128u << 20)
#define THREAD_POOL (POOL_SIZE / THREADS_MAX)

struct dt_state floor_state __attribute__((aligned(4096)));
uint8_t floor_pool[POOL_SIZE] __attribute__((aligned(4096)));

struct variant {
	const char *name;
	void (*foo)(void); /* the probed function; NULL: none */
	void (*loop[2])(long n); /* alone, between busy code */
	unsigned event_size; /* 0: records nothing */
	const char *what;
};

#define VARIANTS(X)                                                                              \
	X(rdtsc, 0, "one rdtsc")                                                                 \
	X(none, 0, "the call without a probe")                                                   \
	X(detour, 0, "jump to the trampoline, displaced instruction, jump back")                 \
	X(push, 8, "(a) full path: push x 4, seto+lahf pushed")                                  \
	X(reg, 8, "(b) flags kept in a fifth register")                                          \
	X(redzone, 8, "(c) saved by mov into the dead red zone")                                 \
	X(skip, 8, "    (a) below a live red zone (lea rsp twice)")                              \
	X(popf, 8, "    (a) with pushf/popf")                                                    \
	X(noevents, 8, "(d) (a) without inc [events]")                                           \
	X(notid, 8, "(e) (a) without the tid check")                                             \
	X(nogap, 8, "    (a) without the gap check")                                             \
	X(nolast, 8, "    (a) without gap check and store of last")                              \
	X(noxchg, 8, "    (a) with a plain store for the cmpxchg (unsafe)")                      \
	X(lean, 8, "    (c) without events and tid check")                                       \
	X(jmp_on, 8, "(f) (a) + jmp [rip+pointer], on")                                          \
	X(jmp_off, 0, "    (a) + jmp [rip+pointer], off")                                        \
	X(cmp_on, 8, "    (a) + cmp byte after the flags are saved, on")                         \
	X(cmp_off, 0, "    (a) + cmp byte after the flags are saved, off")                       \
	X(cx_on, 8, "    (a) + movzx ecx, jrcxz, on")                                            \
	X(cx_off, 0, "    (a) + movzx ecx, jrcxz, off")                                          \
	X(code_on, 8, "    (a) + nop5 at the trampoline's head, on")                             \
	X(code_off, 0, "    (a) + jmp rel32 written over the head, off")                         \
	X(rz_cmp_on, 8, "    (c) + cmp byte after the flags are saved, on")                      \
	X(rz_cmp_off, 0, "    (c) + cmp byte after the flags are saved, off")                    \
	X(rz_jmp_on, 8, "    (c) + jmp [rip+pointer], on")                                       \
	X(args, 56, "(g) (a) + six words, header pending then final")                            \
	X(args_final, 56, "    (a) + six words, final header only")                              \
	X(args_redzone, 56, "    (c) + six words, header pending then final")                    \
	X(args_rz_final, 56, "    (c) + six words, final header only")                           \
	X(args_jmp, 56, "    (a) + six words, pending/final, jmp [rip+pointer] on")           \
	X(shared, 8, "(h) (f) with a routine from the slot to the event")                        \
	X(args_shared, 56, "    (g) with such a routine, jmp [rip+pointer] on")

#define DECLARE(name, size, what)                                                                \
	void floor_##name(long n), busy_##name(long n), foo_##name(void);
VARIANTS(DECLARE)
#undef DECLARE


long floor_changes(void (*foo)(void), long flags);

#define foo_rdtsc NULL /* an instruction, not a function */
static const struct variant variants[] = {
#define ROW(name, size, what) { #name, foo_##name, { floor_##name, busy_##name }, size, what },
	VARIANTS(ROW)
#undef ROW
};

#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))
#define RDTSC 0
#define NONE 1

static struct {
	int threads;
	int rounds;
	long calls;
	unsigned pool; /* bytes a thread cycles through */
} options = { 1, 200, 100000, 1u << 20 };

/* Of one thread; the minimum over the rounds. */
struct worker {
	pthread_t thread;
	int cpu;
	uint64_t reserved; /* bytes in the chunks that are full */
	double best[2][VARIANT_COUNT];
};

static struct worker workers[THREADS_MAX];
static pthread_barrier_t barrier;
static __thread struct worker *self;
static __thread struct dt_slot *my_slot;

static uint32_t pool_base(void)
{
	return (uint32_t)(self - workers) * THREAD_POOL;
}

/* Called by the trampolines when the chunk is full or the clock jumped. */
void floor_next_chunk(struct dt_slot *slot);
__attribute__((target("general-regs-only"))) void floor_next_chunk(struct dt_slot *slot)
{
	uint32_t base = pool_base();
	uint32_t next;

	if (__builtin_ia32_rdtsc() - slot->last >= 1ULL << GAP_SHIFT)
		slot->last = __builtin_ia32_rdtsc();
	self->reserved += (uint32_t)slot->reserve - (slot->limit - DT_CHUNK_BIG);
	next = slot->limit - base >= options.pool ? base : slot->limit;
	slot->limit = next + DT_CHUNK_BIG;
	slot->reserve = ((slot->reserve >> 32) + 1) << 32 | next;
}

static uint64_t find_tid_offset(uint64_t fs_base, uint32_t tid)
{
	for (uint64_t offset = 0; offset < 0x800; offset += 4) {
		if (*(const uint32_t *)(fs_base + offset) == tid)
			return offset;
	}
	fprintf(stderr, "floor: no tid in the thread block\n");
	exit(1);
}

static void claim_slot(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	unsigned long fs_base;

	syscall(SYS_arch_prctl, ARCH_GET_FS, &fs_base);
	my_slot = (struct dt_slot *)((char *)floor_state.slots + dt_hash(fs_base));
	my_slot->tid = tid;
	my_slot->tid_offset = find_tid_offset(fs_base, tid);
	my_slot->limit = pool_base() + DT_CHUNK_BIG;
	my_slot->reserve = pool_base();
	my_slot->last = __builtin_ia32_rdtsc();
	my_slot->key = ~fs_base;
}

static uint64_t bytes_reserved(void)
{
	return self->reserved + ((uint32_t)my_slot->reserve - (my_slot->limit - DT_CHUNK_BIG));
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double measure(const struct variant *v, int busy)
{
	uint64_t before = bytes_reserved();
	double start, ns;

	pthread_barrier_wait(&barrier);
	start = now_ns();
	v->loop[busy](options.calls);
	ns = (now_ns() - start) / (double)options.calls;
	if (bytes_reserved() - before != (uint64_t)options.calls * v->event_size) {
		fprintf(stderr, "floor: %s recorded %lu bytes, not %lu\n", v->name,
			(unsigned long)(bytes_reserved() - before),
			(unsigned long)options.calls * v->event_size);
		exit(1);
	}
	return ns;
}

/* A variant that changes what the program sees isn't worth measuring. */
static void check_variant(const struct variant *v)
{
	static const long flags[] = { 0x246, 0x203, 0xa02, 0xad7, 0x287, 0xa93 };

	for (size_t i = 0; v->foo && i < sizeof(flags) / sizeof(flags[0]); i++) {
		long changes = floor_changes(v->foo, flags[i]);

		if (!changes)
			continue;
		fprintf(stderr, "floor: %s changes %ld registers\n", v->name, changes);
		exit(1);
	}
}

static void run_round(int round)
{
	for (size_t i = 0; i < 2 * VARIANT_COUNT; i++) {
		double *best = &self->best[i % 2][i / 2];
		double ns = measure(&variants[i / 2], i % 2);

		if (round == 0 || ns < *best)
			*best = ns;
	}
}

static void *worker_main(void *arg)
{
	cpu_set_t set;

	self = arg;
	CPU_ZERO(&set);
	CPU_SET(self->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	claim_slot();
	if (self == workers) {
		for (size_t i = 0; i < VARIANT_COUNT; i++)
			check_variant(&variants[i]);
	}
	for (int round = 0; round < options.rounds; round++)
		run_round(round);
	return NULL;
}

static double worst_of_threads(int busy, size_t variant)
{
	double worst = 0;

	for (int i = 0; i < options.threads; i++) {
		if (workers[i].best[busy][variant] > worst)
			worst = workers[i].best[busy][variant];
	}
	return worst;
}

static double cost(int busy, size_t variant)
{
	double ns = worst_of_threads(busy, variant);

	return variant == RDTSC || variant == NONE ? ns : ns - worst_of_threads(busy, NONE);
}

static void report(void)
{
	double unit = cost(0, RDTSC);

	printf("%d thread(s), %d rounds of %ld calls, %u KiB a thread\n", options.threads,
	       options.rounds, options.calls, options.pool >> 10);
	printf("%8s %8s %8s %8s\n", "x rdtsc", "ns", "busy x", "busy ns");
	for (size_t i = 0; i < VARIANT_COUNT; i++) {
		printf("%8.2f %8.2f %8.2f %8.2f  %s\n", cost(0, i) / unit, cost(0, i),
		       cost(1, i) / unit, cost(1, i), variants[i].what);
	}
}

static long number(const char *text, long least, long most)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || n < least || n > most) {
		fprintf(stderr, "floor: '%s' is not a number from %ld to %ld\n", text, least, most);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--threads"))
			options.threads = (int)number(argv[i + 1], 1, THREADS_MAX);
		else if (!strcmp(argv[i], "--rounds"))
			options.rounds = (int)number(argv[i + 1], 1, 1000000);
		else if (!strcmp(argv[i], "--calls"))
			options.calls = number(argv[i + 1], 1, 1000000000);
		else if (!strcmp(argv[i], "--pool"))
			options.pool = (unsigned)number(argv[i + 1], 64, THREAD_POOL >> 10) << 10;
	}
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	memset(floor_pool, 0, sizeof(floor_pool));
	pthread_barrier_init(&barrier, NULL, (unsigned)options.threads);
	for (int i = 0; i < options.threads; i++) {
		workers[i].cpu = i;
		pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
	}
	for (int i = 0; i < options.threads; i++)
		pthread_join(workers[i].thread, NULL);
	report();
	return 0;
}
