#include "stack_scan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"

#define RED_ZONE 128u
#define STACK_MAX (16ULL << 20) /* a larger "stack" is a heap with coroutines */
#define STACKS_MAX 65536u /* more must be forged signal frames, */
#define ROUNDS_MAX 64 /* and so must longer ways from stack to stack */
#define BUFFER_SIZE (256u << 10)

/* The last registers of a signal frame: rsp, rip, eflags, cs | gs << 16 | fs << 32 | ss << 48. */
#define FRAME_WORDS 4u
#define SELECTOR_CS 0x33u
#define SELECTOR_SS 0x2bu

static int by_start(const void *a, const void *b)
{
	const struct stack_scan_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

struct error *stack_scan_begin(struct stack_scan *scan, struct proc *proc,
			       struct stack_scan_range *ranges, size_t count)
{
	struct stack_scan s = { .proc = proc, .ranges = ranges, .count = count };

	s.buffer = malloc(BUFFER_SIZE);
	stack_memory_open(&s.memory, proc);
	if (!s.buffer || !vec_reserve(&s.covered, 256) || !vec_reserve(&s.current, 256) ||
	    !vec_reserve(&s.found, 256)) {
		stack_scan_end(&s);
		return error_new(ERROR_FAILED, "out of memory");
	}
	memset(s.buffer, 0, BUFFER_SIZE); /* touched here, not while the target waits */
	qsort(ranges, count, sizeof(*ranges), by_start);
	*scan = s;
	return NULL;
}

void stack_scan_end(struct stack_scan *scan)
{
	stack_memory_close(&scan->memory);
	free(scan->buffer);
	vec_free(&scan->covered);
	vec_free(&scan->current);
	vec_free(&scan->found);
	*scan = (struct stack_scan){ 0 };
}

struct stack_scan_range *stack_scan_find(const struct stack_scan *scan, uint64_t address)
{
	size_t n = sorted_count(scan->count, i, scan->ranges[i].end <= address);

	if (n < scan->count && scan->ranges[n].start <= address)
		return &scan->ranges[n];
	return NULL;
}

struct stack_scan_range *stack_scan_find_thread(const struct stack_scan *scan, uint64_t rip,
						uint64_t rsp)
{
	struct stack_scan_range *range = stack_scan_find(scan, rip);
	uint64_t word;

	if (!range || !range->is_called)
		return range;
	_cleanup_error_ struct error *err =
		mem_read(scan->proc, taddr_of(rsp), &word, sizeof(word));
	if (err)
		return range; /* not known: it counts */
	range = stack_scan_find(scan, word);
	return range && range->is_called ? NULL : range;
}

/* The stack that an rsp points into; empty if rsp is not mapped. */
static struct error *find_stack(struct stack_scan *scan, uint64_t rsp,
				struct stack_range *ret_stack)
{
	struct error *err = stack_memory_find(&scan->memory, rsp, ret_stack);

	if (err || ret_stack->start == ret_stack->end)
		return err;
	if (rsp > ret_stack->start + RED_ZONE)
		ret_stack->start = rsp - RED_ZONE;
	ret_stack->start &= ~7ULL;
	if (ret_stack->end - ret_stack->start > STACK_MAX)
		ret_stack->end = ret_stack->start + STACK_MAX;
	return NULL;
}

/* The first of these stacks, which are sorted and don't overlap, that ends behind the address. */
static size_t first_behind(const struct stack_scan_stacks *stacks, uint64_t address)
{
	return sorted_count(stacks->count, i, stacks->items[i].end <= address);
}

static bool is_covered(const struct stack_scan_stacks *stacks,
		       const struct stack_range *stack)
{
	size_t n = first_behind(stacks, stack->start);

	return n < stacks->count && stacks->items[n].start <= stack->start &&
	       stack->end <= stacks->items[n].end;
}

/* Notes a stack that has to be read. */
static struct error *add_stack(struct stack_scan *scan, uint64_t rsp)
{
	struct stack_range stack;
	struct error *err = find_stack(scan, rsp, &stack);

	if (err || stack.start >= stack.end || is_covered(&scan->covered, &stack) ||
	    is_covered(&scan->current, &stack) || scan->found.count >= STACKS_MAX)
		return err;
	return vec_push(&scan->found, stack) ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int by_stack(const void *a, const void *b)
{
	const struct stack_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Sorts stacks and joins those that overlap. */
static void join_stacks(struct stack_scan_stacks *stacks)
{
	size_t kept = 0;

	qsort(stacks->items, stacks->count, sizeof(*stacks->items), by_stack);
	for (size_t i = 0; i < stacks->count; i++) {
		struct stack_range stack = stacks->items[i];

		if (kept && stack.start < stacks->items[kept - 1].end) {
			if (stack.end > stacks->items[kept - 1].end)
				stacks->items[kept - 1].end = stack.end;
		} else {
			stacks->items[kept++] = stack;
		}
	}
	stacks->count = kept;
}

/* Adds to `pieces` the parts of the stack that are not covered. */
static bool push_uncovered(const struct stack_scan_stacks *covered, struct stack_range stack,
			   struct stack_scan_stacks *pieces)
{
	for (size_t i = first_behind(covered, stack.start);
	     i < covered->count && covered->items[i].start < stack.end; i++) {
		struct stack_range before = stack;

		before.end = covered->items[i].start;
		if (before.start < before.end && !vec_push(pieces, before))
			return false;
		stack.start = covered->items[i].end;
	}
	return stack.start >= stack.end || vec_push(pieces, stack);
}

/* Puts the stacks that were found, as far as none of the rounds before has read them, into
 * `current`. */
static struct error *begin_round(struct stack_scan *scan)
{
	bool good = vec_reserve(&scan->covered, scan->current.count);

	for (size_t i = 0; good && i < scan->current.count; i++)
		scan->covered.items[scan->covered.count++] = scan->current.items[i];
	join_stacks(&scan->covered);
	join_stacks(&scan->found);
	scan->current.count = 0;
	for (size_t i = 0; good && i < scan->found.count; i++)
		good = push_uncovered(&scan->covered, scan->found.items[i], &scan->current);
	scan->found.count = 0;
	return good ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_frame_end(const uint64_t *word)
{
	return (*word & 0xffff) == SELECTOR_CS && *word >> 48 == SELECTOR_SS;
}

static void judge_word(struct stack_scan *scan, uint64_t word)
{
	struct stack_scan_range *range = stack_scan_find(scan, word);

	if (range && !range->is_called)
		range->hit = true;
}

static void judge_frame(struct stack_scan *scan, uint64_t rip, uint64_t rsp)
{
	struct stack_scan_range *range = stack_scan_find_thread(scan, rip, rsp);

	if (range)
		range->hit = true;
}

/* Judges words[FRAME_WORDS - 1 ...]. The words before have been judged; signal frames need them. */
static struct error *judge_words(struct stack_scan *scan, const uint64_t *words, size_t count)
{
	uint64_t low = scan->count ? scan->ranges[0].start : 0;
	uint64_t span = scan->count ? scan->ranges[scan->count - 1].end - low : 0;

	for (size_t i = FRAME_WORDS - 1; i < count; i++) {
		struct error *err;

		if (words[i] - low < span && !scan->frames_only)
			judge_word(scan, words[i]);
		if (!is_frame_end(&words[i]))
			continue;
		judge_frame(scan, words[i - 2], words[i - 3]);
		err = add_stack(scan, words[i - 3]);
		if (err)
			return err;
	}
	return NULL;
}

/* Reads pages in pieces. */
static struct error *scan_used(struct stack_scan *scan, const struct stack_range *used)
{
	size_t kept = (FRAME_WORDS - 1) * 8;

	memset(scan->buffer, 0, kept);
	for (uint64_t at = used->start; at < used->end;) {
		size_t want = BUFFER_SIZE - kept;
		ssize_t got;
		struct error *err;

		if (want > used->end - at)
			want = used->end - at;
		got = pread(scan->proc->mem_fd, scan->buffer + kept, want, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		got &= ~7L;
		if (got <= 0)
			return NULL;
		err = judge_words(scan, (const uint64_t *)scan->buffer, (kept + (size_t)got) / 8);
		if (err)
			return err;
		memmove(scan->buffer, scan->buffer + got, kept);
		at += (uint64_t)got;
	}
	return NULL;
}

/* Reads one stack. */
static struct error *scan_one(struct stack_scan *scan, struct stack_range rest)
{
	struct error *err = NULL;

	assert(rest.start % 8 == 0 && rest.start < rest.end);
	while (!err && rest.start < rest.end) {
		struct stack_range used = stack_memory_used(&scan->memory, &rest);

		err = scan_used(scan, &used);
		rest.start = used.end;
	}
	return err;
}

/* Does all of the stack exist? */
static bool is_whole(const struct stack_scan *scan, const struct stack_range *stack)
{
	struct stack_range used = stack_memory_used(&scan->memory, stack);

	return used.start == stack->start && used.end == stack->end;
}

/* Reads small stacks, from `from` on, by one system call. *ret_count: so many; 0: read the first by
 * itself. */
static struct error *scan_some(struct stack_scan *scan, size_t from, size_t *ret_count)
{
	struct mem_piece pieces[MEM_PIECES_MAX];
	size_t kept = (FRAME_WORDS - 1) * 8, used = 0, count = 0;
	struct error *err = NULL;

	*ret_count = 0;
	for (size_t i = from; i < scan->current.count && count < MEM_PIECES_MAX; i++) {
		const struct stack_range *stack = &scan->current.items[i];
		size_t size = stack->end - stack->start;

		if (size % 8 || size > BUFFER_SIZE - kept - used || !is_whole(scan, stack))
			break;
		memset(scan->buffer + used, 0, kept);
		pieces[count++] = (struct mem_piece){ taddr_of(stack->start),
						      scan->buffer + used + kept, size };
		used += kept + size;
		if (BUFFER_SIZE - used < kept)
			break;
	}
	if (count < 2 || !mem_read_many(scan->proc, pieces, count))
		return NULL;
	for (size_t i = 0; !err && i < count; i++)
		err = judge_words(scan, (const uint64_t *)((uint8_t *)pieces[i].to - kept),
				  (kept + pieces[i].size) / 8);
	*ret_count = count;
	return err;
}

static struct error *scan_round(struct stack_scan *scan)
{
	struct error *err = NULL;
	size_t count;

	for (size_t i = 0; !err && i < scan->current.count; i += count ? count : 1) {
		err = scan_some(scan, i, &count);
		if (!err && !count)
			err = scan_one(scan, scan->current.items[i]);
	}
	return err;
}

struct error *stack_scan_stacks(struct stack_scan *scan, struct stop *stop)
{
	struct error *err = mem_open(scan->proc);

	assert(stop); /* the stacks of running threads change while they are read */
	scan->covered.count = scan->current.count = scan->found.count = 0;
	stack_memory_begin(&scan->memory);
	for (size_t i = 0; i < scan->count; i++)
		scan->ranges[i].hit = false;
	for (size_t i = 0; !err && i < stop_thread_count(stop); i++)
		err = add_stack(scan, stop_thread_rsp(stop, i).v);
	for (int round = 0; !err && scan->found.count && round < ROUNDS_MAX; round++) {
		err = begin_round(scan);
		if (!err)
			err = scan_round(scan);
	}
	return err;
}
