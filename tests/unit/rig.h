/*
 * rig.h - a control page, a pool, a state and the built agent in one test process; rig_hit, which
 * acts as a trampoline; a reader and a trace, to read all events back.
 */
#ifndef DYNTRACE_TESTS_RIG_H
#define DYNTRACE_TESTS_RIG_H

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cmocka.h>

#include "../../src/control/base/cleanup.h"
#include "../../src/control/ctf/writer.h"
#include "../../src/control/record/reader.h"
#include "../../src/shared/layout.h"
#include "built.h"
#include "place.h"

/* Events of the rig: id 1 is bare, 2 has two fields, 3 has six, 4 has a 32-bit one. Id 0 is not
 * used. */
enum { RIG_BARE = 1, RIG_TWO, RIG_SIX, RIG_WORD, RIG_TYPES };
static const uint32_t rig_sizes[RIG_TYPES] = { 0, 8, 24, 56, 16 };

struct dt_control *rig_control;
struct dt_state *rig_state;
struct dt_pool *rig_pool;
struct dt_slot *rig_slots;
void *rig_slow, *rig_gather;

/* 1: recorded, 0: skipped. Payload words are value, value + 1, ... */
int rig_hit_raw(uint64_t id, uint64_t size, uint64_t value);

__asm__(".text\n"
	".globl rig_hit_raw\n"
	"rig_hit_raw:\n"
	"	pushq %rbx\n"
	"	movq %rdx, %r8\n"
	"	rdfsbase %rcx\n"
	"	imulq $0x61c88647, %rcx, %rdx\n"
	"	shrq $26, %rdx\n"
	"	andl $0x7ffc0, %edx\n"
	"	addq rig_slots(%rip), %rdx\n"
	"	notq %rcx\n"
	"	cmpq %rcx, 0(%rdx)\n"
	"	jne 8f\n"
	"	movq %rdx, %rcx\n"
	"	movq 24(%rcx), %rbx\n"
	"	movl %fs:(%rbx), %ebx\n"
	"	cmpl 20(%rcx), %ebx\n"
	"	jne 8f\n"
	"1:	movq 8(%rcx), %rbx\n"
	"	rdtsc\n"
	"	shlq $32, %rdx\n"
	"	orq %rax, %rdx\n"
	"	movq %rdx, %rax\n"
	"	subq 32(%rcx), %rax\n"
	"	shrq $39, %rax\n"
	"	jne 8f\n"
	"	movq %rbx, %rax\n"
	"	addq %rsi, %rbx\n"
	"	cmpl 16(%rcx), %ebx\n"
	"	ja 8f\n"
	"	cmpxchgq %rbx, 8(%rcx)\n"
	"	jne 1b\n"
	"	movq %rdx, 32(%rcx)\n"
	"	incl 40(%rcx)\n"
	"	movl %eax, %eax\n"
	"	addq rig_pool(%rip), %rax\n"
	"	shlq $24, %rdx\n"
	"	orq %rdi, %rdx\n"
	"	cmpq $8, %rsi\n"
	"	je 3f\n"
	"	movq %rdx, %rbx\n"
	"	orq $0x800000, %rbx\n"
	"	movq %rbx, (%rax)\n"
	"	movl $8, %ebx\n"
	"2:	movq %r8, (%rax, %rbx)\n"
	"	incq %r8\n"
	"	addq $8, %rbx\n"
	"	cmpq %rsi, %rbx\n"
	"	jb 2b\n"
	"3:	movq %rdx, (%rax)\n"
	"	movl $1, %eax\n"
	"	popq %rbx\n"
	"	ret\n"
	"8:	movl %edi, %eax\n"
	"	movl %esi, %edx\n"
	"	movq rig_control(%rip), %rbx\n"
	"	call *rig_slow(%rip)\n"
	"	testq %rcx, %rcx\n"
	"	jnz 1b\n"
	"	xorl %eax, %eax\n"
	"	popq %rbx\n"
	"	ret\n");

_Static_assert(offsetof(struct dt_slot, reserve) == 8 && offsetof(struct dt_slot, limit) == 16 &&
		       offsetof(struct dt_slot, tid) == 20 &&
		       offsetof(struct dt_slot, tid_offset) == 24 &&
		       offsetof(struct dt_slot, last) == 32 &&
		       offsetof(struct dt_slot, events) == 40 && DT_HASH_MASK == 0x7ffc0,
	       "rig_hit_raw");

/* dt_gather: 1: written, 0: not (struct dt_regs, struct dt_program). */
uint64_t rig_gather_raw(const void *regs, const void *program);

__asm__(".text\n"
	".globl rig_gather_raw\n"
	"rig_gather_raw:\n"
	"	pushq %rbx\n"
	"	movq rig_control(%rip), %rbx\n"
	"	call *rig_gather(%rip)\n"
	"	popq %rbx\n"
	"	ret\n");

static inline int rig_hit(unsigned id, uint64_t value)
{
	return rig_hit_raw(id, rig_sizes[id], value);
}

static inline void rig_load_agent(void)
{
	char path[PATH_MAX];

	built_path("libdyntrace-agent.so", path);
	void *agent = dlopen(path, RTLD_NOW);
	if (!agent)
		fail_msg("%s", dlerror());
	rig_slow = dlsym(agent, "dt_slow");
	rig_gather = dlsym(agent, "dt_gather");
	assert_true(rig_slow && rig_gather);
}

static inline void *rig_map(int fd, size_t size)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

static inline uint64_t rig_pool_size(uint32_t small, uint32_t big)
{
	return dt_chunks_offset(small + big) + (uint64_t)small * DT_CHUNK_SMALL +
	       (uint64_t)big * DT_CHUNK_BIG;
}

static inline struct dt_pool *rig_make_pool(uint32_t small, uint32_t big)
{
	_cleanup_close_ int fd = memfd_create("pool", MFD_CLOEXEC);
	uint64_t size = rig_pool_size(small, big);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	struct dt_pool *pool = rig_map(fd, size);
	pool->magic = DT_MAGIC;
	pool->version = DT_LAYOUT_VERSION;
	pool->small_count = small;
	pool->big_count = big;
	pool->small_free = (int32_t)small;
	pool->big_free = (int32_t)big;
	return pool;
}

static inline void rig_up(uint32_t small, uint32_t big, uint32_t flags)
{
	if (!rig_slow)
		rig_load_agent();
	rig_control = rig_map(-1, DT_CONTROL_SIZE);
	rig_state = rig_map(-1, sizeof(*rig_state));
	assert_int_equal(madvise(rig_state, sizeof(*rig_state), MADV_WIPEONFORK), 0);
	rig_slots = rig_state->slots;
	rig_pool = rig_make_pool(small, big);
	rig_control->magic = DT_MAGIC;
	rig_control->version = DT_LAYOUT_VERSION;
	rig_control->flags = flags;
	rig_control->pid = (uint32_t)getpid();
	rig_control->state = (uint64_t)rig_state;
	rig_control->pool = (uint64_t)rig_pool;
	rig_control->pool_size = rig_pool_size(small, big);
	rig_control->small_count = small;
	rig_control->big_count = big;
	rig_control->chunks_offset = (uint32_t)dt_chunks_offset(small + big);
	rig_control->event_count = RIG_TYPES;
	rig_state->pid = (uint32_t)getpid();
}

static inline void rig_down(void)
{
	munmap(rig_pool, rig_control->pool_size);
	munmap(rig_state, sizeof(*rig_state));
	munmap(rig_control, DT_CONTROL_SIZE);
}

/* The calling thread's slot, by FS base. */
static inline struct dt_slot *rig_my_slot(void)
{
	uint64_t base;

	__asm__ volatile("rdfsbase %0" : "=r"(base));
	for (uint32_t i = 0; i < DT_SLOTS; i++) {
		if (rig_slots[i].key == ~base)
			return &rig_slots[i];
	}
	return NULL;
}

#define RIG_TID_OFFSET 0x2d0 /* in glibc's thread block */

/* ---- reading it back ---------------------------------------------------------------------- */

struct rig_trace {
	char directory[64];
	char top[48];
	struct event_types types;
	struct clock_estimate clock;
	struct trace_writer *writer;
	struct reader *reader;
	struct reader_totals totals;
};

#define RIG_OK(call)                                              \
	do {                                                      \
		struct error *error_ = (call);                    \
		if (error_)                                       \
			fail_msg("%s: %s", #call, error_text(error_)); \
	} while (0)

static inline bool rig_alive(void *context, const struct reader_thread *thread)
{
	(void)context;
	return !syscall(SYS_tgkill, thread->pid, thread->tid, 0) || errno != ESRCH;
}

static inline void rig_make_types(struct event_types *types)
{
	static const char *names[] = { "none", "bare", "two", "six", "word" };
	static const unsigned counts[] = { 0, 0, 2, 6, 1 };

	*types = (struct event_types){ .items = calloc(RIG_TYPES, sizeof(*types->items)),
				       .count = RIG_TYPES };
	for (unsigned id = 0; id < RIG_TYPES; id++) {
		struct event_type *type = &types->items[id];

		*type = (struct event_type){ .id = id,
					     .name = strdup(names[id]),
					     .size = rig_sizes[id],
					     .field_count = counts[id] };
		type->fields = calloc(counts[id] + 1, sizeof(*type->fields));
		for (unsigned i = 0; i < counts[id]; i++) {
			struct event_field *field = &type->fields[i];

			snprintf(field->name, sizeof(field->name), "arg%u", i);
			field->type = FIELD_UINT;
			field->size = id == RIG_WORD ? 4 : 8;
			field->offset = (uint16_t)(8 + 8 * i);
		}
	}
}

static inline void rig_open_trace(struct rig_trace *trace)
{
	static const struct trace_info info = { .hostname = "host", .process = "rig", .pid = 1 };
	static struct clock_estimate clock;

	if (!clock.frequency)
		clock_start(&clock);
	memset(trace, 0, sizeof(*trace));
	snprintf(trace->top, sizeof(trace->top), "%s/dyntrace-rig-XXXXXX", place_disk());
	assert_non_null(mkdtemp(trace->top));
	snprintf(trace->directory, sizeof(trace->directory), "%s/trace", trace->top);
	rig_make_types(&trace->types);
	trace->clock = clock;
	RIG_OK(writer_create(trace->directory, &info, &trace->types, &trace->clock,
			     &trace->writer));
}

/* Of a reader of the rig's pool into the trace. */
static inline struct reader_options rig_reader_options(struct rig_trace *trace)
{
	return (struct reader_options){
		.pool = rig_pool,
		.pool_size = rig_control->pool_size,
		.small_count = rig_control->small_count,
		.big_count = rig_control->big_count,
		.types = &trace->types,
		.writer = trace->writer,
		.alive = rig_alive,
	};
}

static inline void rig_open_reader(struct rig_trace *trace)
{
	struct reader_options options = rig_reader_options(trace);

	RIG_OK(reader_create(&options, &trace->reader));
}

static inline void rig_open(struct rig_trace *trace)
{
	rig_open_trace(trace);
	rig_open_reader(trace);
}

static inline void rig_finish(struct rig_trace *trace)
{
	RIG_OK(reader_finish(trace->reader, &trace->totals));
	reader_destroy(trace->reader);
	trace->reader = NULL;
	RIG_OK(writer_close(trace->writer));
}

static inline void rig_remove_in(const char *directory)
{
	DIR *entries = opendir(directory);

	if (!entries)
		return;
	for (struct dirent *entry; (entry = readdir(entries));)
		unlinkat(dirfd(entries), entry->d_name, 0);
	closedir(entries);
	assert_int_equal(rmdir(directory), 0);
}

static inline void rig_remove(struct rig_trace *trace)
{
	rig_remove_in(trace->directory);
	rig_remove_in(trace->top);
	event_types_free(&trace->types);
}

/* What babeltrace2 says, then its errors and warnings. The caller frees. */
static inline char *rig_babeltrace(const struct rig_trace *trace, const char *options)
{
	char command[512];
	char *text = NULL;
	size_t length = 0;

	snprintf(command, sizeof(command),
		 "babeltrace2 %s '%s' 2>'%s/stderr'; s=$?; cat '%s/stderr'; exit $s", options,
		 trace->directory, trace->top, trace->top);
	FILE *memory = open_memstream(&text, &length);
	FILE *pipe = popen(command, "r");
	char block[65536];
	assert_true(memory && pipe);
	for (size_t n; (n = fread(block, 1, sizeof(block), pipe));)
		fwrite(block, 1, n, memory);
	int status = pclose(pipe);
	fclose(memory);
	if (status)
		fail_msg("babeltrace2: status %d: %.2000s", status, text);
	return text;
}

struct rig_verdict {
	uint64_t events;
	uint64_t discarded;
};

/* Events that babeltrace2 reads and those that it reports as lost. `only`: text that an event's
 * line must have. */
static inline struct rig_verdict rig_judge(const struct rig_trace *trace, const char *only)
{
	_cleanup_free_ char *text = rig_babeltrace(trace, "--fields=all --clock-cycles");
	struct rig_verdict verdict = { 0 };
	char *rest = text;

	for (char *line; (line = strsep(&rest, "\n"));) {
		char *lost = strstr(line, "WARNING: Tracer discarded ");
		unsigned long long n;

		if (lost && sscanf(lost, "WARNING: Tracer discarded %llu event", &n) == 1)
			verdict.discarded += n;
		else if (*line == '[' && (!only || strstr(line, only)))
			verdict.events++;
		else if (lost || (*line && *line != '['))
			fail_msg("babeltrace2: %s", line);
	}
	return verdict;
}

#endif
