/*
 * read_cache.c - windows of the target's memory that the current event has read.
 *
 * A system call that can't fault reads the target's memory, and takes about a microsecond whether
 * it reads 8 bytes or 500, in one place or in four. So the agent reads more than it needs at once:
 * the memory around it, and the program's other strings with the first (DT_OP_PREFETCH). An event
 * with a std::string, or with ten members of a struct, needs one call. Memory is read once per
 * event: all of an event is of one moment.
 */
#include "gather.h"

#include "target/signals/loads.h"

#define LINE 64u

struct word {
	uint64_t word;
} __attribute__((packed, may_alias));

uint64_t read_cache_direct(const struct gather *g, uint64_t from)
{
	if (from - g->own.start < g->own.end - g->own.start)
		return g->own.end - from;
	return safe_stable(g->control, from);
}

static struct window *find(struct gather *g, uint64_t from, uint64_t least)
{
	for (uint32_t i = 0; i < WINDOWS; i++) {
		struct window *window = &g->windows[i];

		if (from >= window->start && from - window->start < window->size &&
		    window->size - (from - window->start) >= least)
			return window;
	}
	return NULL;
}

static struct window *take(struct gather *g, uint64_t from)
{
	struct window *window = &g->windows[g->next_window++ % WINDOWS];

	window->start = from & ~(uint64_t)(LINE - 1);
	window->size = 0;
	return window;
}

/* Number of wanted bytes that a window has; at least `least` if they can be read. */
static uint32_t look(struct gather *g, uint64_t from, uint32_t least, const uint8_t **ret_bytes)
{
	struct window *window = find(g, from, least);

	if (!window) {
		window = take(g, from);
		window->size =
			safe_read(g->control, window->start, window->bytes, WINDOW_SIZE);
		loads_note(g->control, window->start, window->size);
		if (window->size <= from - window->start)
			return 0;
	}
	*ret_bytes = window->bytes + (from - window->start);
	return (uint32_t)(window->size - (from - window->start));
}

static void copy(void *to, const uint8_t *from, uint64_t count)
{
	if (count == 8) { /* most are numbers, and rep takes its time to begin */
		*(struct word *)to = *(const struct word *)from;
		return;
	}
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

/* Bytes that plain loads have read; 0: the memory has to be asked for. */
static uint32_t read_plain(const struct gather *g, uint64_t from, void *to, uint32_t most)
{
	uint64_t known = g->loads ? loads_known(g->control, from) : 0;

	if (known > most)
		known = most;
	if (!known)
		return 0;
	known -= loads_copy(to, from, known);
	loads_note(g->control, from, known);
	return (uint32_t)known;
}

static uint32_t read_window(struct gather *g, uint64_t from, void *to, uint32_t least,
			    uint32_t most)
{
	const uint8_t *bytes = NULL;
	uint32_t got;

	if (most && read_cache_direct(g, from) >= most) {
		copy(to, (const uint8_t *)from, most);
		loads_note(g->control, from, most);
		return most;
	}
	got = read_plain(g, from, to, most);
	if (got && got >= least)
		return got;
	got = look(g, from, least, &bytes);
	got = got < most ? got : most;
	if (got)
		copy(to, bytes, got);
	return got;
}

uint32_t read_cache_read(struct gather *g, uint64_t from, void *to, uint32_t most)
{
	return read_window(g, from, to, most < WINDOW_LEAST ? most : WINDOW_LEAST, most);
}

uint64_t read_cache_read_all(struct gather *g, uint64_t from, void *to, uint32_t length)
{
	return length <= WINDOW_SIZE - LINE ? read_window(g, from, to, length, length)
					    : safe_read(g->control, from, to, length);
}

void read_cache_clear(struct gather *g)
{
	g->next_window = 0;
	for (uint32_t i = 0; i < WINDOWS; i++)
		g->windows[i].size = 0;
}

/* Number of pieces of a window in the list for the kernel: two if the window crosses a page's
 * end. */
static uint32_t list_window(const struct window *window, struct sys_iovec *remote)
{
	uint64_t first = DT_PAGE - (window->start & (DT_PAGE - 1));

	remote[0] = (struct sys_iovec){ window->start, first < WINDOW_SIZE ? first : WINDOW_SIZE };
	remote[1] = (struct sys_iovec){ window->start + first, WINDOW_SIZE - remote[0].length };
	return remote[1].length ? 2 : 1;
}

void read_cache_prefetch(struct gather *g, const uint64_t *addresses, uint32_t count)
{
	struct sys_iovec local[WINDOWS], remote[2 * WINDOWS];
	struct window *taken[WINDOWS];
	uint32_t windows = 0, pieces = 0;
	uint64_t got;

	for (uint32_t i = 0; i < count && windows < WINDOWS; i++) {
		if (!addresses[i] || read_cache_direct(g, addresses[i]) ||
		    (g->loads && loads_known(g->control, addresses[i])) ||
		    find(g, addresses[i], 1))
			continue;
		taken[windows] = take(g, addresses[i]);
		local[windows] = (struct sys_iovec){ (uint64_t)taken[windows]->bytes, WINDOW_SIZE };
		pieces += list_window(taken[windows], remote + pieces);
		windows++;
	}
	if (windows < 2)
		return;
	/* The kernel reads nothing after an unreadable piece; a later read asks for it again. */
	got = safe_read_list(g->control, local, windows, remote, pieces);
	for (uint32_t i = 0; i < windows; i++) {
		taken[i]->size = got < WINDOW_SIZE ? got : WINDOW_SIZE;
		loads_note(g->control, taken[i]->start, taken[i]->size);
		got -= taken[i]->size;
	}
}
