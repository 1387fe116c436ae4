#include "go_prologue.h"

#include <string.h>

#include "control/elf/go_cfi.h"
#include "control/elf/go_functions.h"

/* The longest: lea with 32 bits, cmp, jbe with 32 bits. */
#define LONGEST 18u
#define CHECKED_ROOM 792 /* of 928, behind a function with a check, and its call */
#define CALL 8
#define HIT 360
#define GATHERING_HIT 600
#define RED_ZONE 128
#define LEVELS_MOST 8
#define CALLERS_MOST 200000 /* that are looked at: files may be hostile */

/* lea -frame(%rsp), %r12; its length, or 0: another instruction. */
static uint8_t read_lea(const uint8_t *bytes, int32_t *ret_frame)
{
	static const uint8_t near[] = { 0x4c, 0x8d, 0x64, 0x24 };
	static const uint8_t far[] = { 0x4c, 0x8d, 0xa4, 0x24 };
	int32_t distance;

	if (!memcmp(bytes, near, sizeof(near))) {
		*ret_frame = -(int8_t)bytes[sizeof(near)];
		return sizeof(near) + 1;
	}
	if (memcmp(bytes, far, sizeof(far)) != 0)
		return 0;
	memcpy(&distance, bytes + sizeof(far), sizeof(distance));
	if (distance == INT32_MIN)
		return 0;
	*ret_frame = -distance;
	return sizeof(far) + sizeof(distance);
}

/* jbe; its length, or 0: another instruction. */
static uint8_t read_branch(const uint8_t *bytes)
{
	if (bytes[0] == 0x76)
		return 2;
	return bytes[0] == 0x0f && bytes[1] == 0x86 ? 6 : 0;
}

bool go_prologue_read(const struct symtab *symtab, uint64_t start, struct go_prologue *ret_prologue)
{
	static const uint8_t by_rsp[] = { 0x49, 0x3b, 0x66, 0x10 }, by_r12[] = { 0x4d, 0x3b, 0x66,
										  0x10 };
	const struct text_range *text = symtab_text(symtab, start);
	struct go_prologue prologue = { 0 };

	if (!text || text->address + text->size - start < LONGEST)
		return false;
	const uint8_t *bytes = text->bytes + (start - text->address);
	uint8_t lea = read_lea(bytes, &prologue.frame);
	if (memcmp(bytes + lea, lea ? by_r12 : by_rsp, sizeof(by_rsp)) != 0)
		return false;
	prologue.branch = (uint8_t)(lea + sizeof(by_rsp));
	uint8_t branch = read_branch(bytes + prologue.branch);
	if (!branch)
		return false;
	prologue.length = (uint8_t)(prologue.branch + branch);
	*ret_prologue = prologue;
	return true;
}

bool go_prologue_has_goroutine(const struct symtab *symtab)
{
	const struct symbol *begin = symtab_find(symtab, "runtime.main");
	struct go_prologue prologue;

	return begin && go_prologue_read(symtab, begin->address, &prologue);
}

bool go_prologue_keeps_goroutine(const struct symtab *symtab, uint64_t start)
{
	struct go_function function;
	struct go_prologue prologue;

	return go_prologue_read(symtab, start, &prologue) ||
	       (go_prologue_has_goroutine(symtab) && go_functions_at(symtab, start, &function) &&
		function.start == start && function.is_compiled);
}

bool go_prologue_is_go_code(const struct symtab *symtab, uint64_t address)
{
	struct go_function function;

	if (go_functions_exist(symtab))
		return go_functions_at(symtab, address, &function);
	const struct symbol *start = symtab_find(symtab, "runtime.text");
	const struct symbol *end = symtab_find(symtab, "runtime.etext"); /* NULL: all of it */

	return symtab_is_go(symtab) && start && address >= start->address &&
	       (!end || address < end->address);
}

bool go_prologue_is_runtime(const struct symbol *symbol)
{
	static const char *const packages[] = { "runtime.", "runtime/", "internal/", "syscall." };
	bool runtime = !strchr(symbol->name, '.'); /* a local label of its assembly */

	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++)
		runtime |= !strncmp(symbol->name, packages[i], strlen(packages[i]));
	return runtime;
}

/* ---- room for a hit -------------------------------------------------------------------------- */

struct chain {
	const struct symtab *symtab;
	uint32_t callers; /* looked at */
};

/* The bytes that a function takes if it has no check, with a call; 0: it has one, or nothing tells.
 * Who takes more than there is has a check of a kind that go_prologue_read doesn't know. */
static uint64_t taken_by(const struct symtab *symtab, uint64_t start)
{
	struct go_prologue prologue;
	uint64_t frame;

	if (go_prologue_read(symtab, start, &prologue) || !go_cfi_deepest(symtab, start, &frame) ||
	    frame >= CHECKED_ROOM)
		return 0;
	return frame + CALL;
}

/* The bytes that functions without a check may have taken at the function's start. Go's linker
 * sees to it that they are few, and that they don't call themselves. */
static uint64_t taken_at(struct chain *chain, uint64_t start, unsigned level)
{
	uint64_t most = 0;
	size_t count;
	const struct symtab_jump *jumps = symtab_jumps_to(chain->symtab, start, &count);

	for (size_t i = 0; i < count; i++) {
		struct go_function caller;

		if (++chain->callers > CALLERS_MOST)
			return UINT32_MAX;
		if (!go_functions_at(chain->symtab, jumps[i].from, &caller) ||
		    caller.start == start)
			continue;
		uint64_t taken = taken_by(chain->symtab, caller.start);
		if (taken)
			taken += level < LEVELS_MOST ? taken_at(chain, caller.start, level + 1) :
						       UINT32_MAX;
		most = taken > most ? taken : most;
	}
	return most;
}

static bool is_chain_long(const struct symtab *symtab, uint64_t start, uint64_t needed)
{
	struct chain chain = { .symtab = symtab };

	return taken_at(&chain, start, 0) + needed > CHECKED_ROOM;
}

bool go_prologue_has_no_room(const struct symtab *symtab, const struct symbol *symbol,
			     const struct go_hit *hit)
{
	static const char more[] = "runtime.morestack";
	uint64_t start = symbol->address, needed = hit->gathers ? GATHERING_HIT : HIT;
	struct go_prologue prologue;

	if (!go_prologue_is_go_code(symtab, start))
		return false;
	if (!strncmp(symbol->name, more, sizeof(more) - 1))
		return true;
	if (hit->address != start)
		needed += RED_ZONE;
	if (go_prologue_read(symtab, start, &prologue)) {
		/* one that doesn't check keeps others at the place from it (trampoline.c) */
		return !hit->checks && hit->address < start + prologue.length &&
		       is_chain_long(symtab, start,
				     needed + (hit->gathers ? 0 : GATHERING_HIT - HIT));
	}
	if (go_prologue_is_runtime(symbol))
		return hit->gathers;
	if (hit->address != start) {
		uint64_t own = taken_by(symtab, start);

		if (!own)
			return false; /* behind its check: 800 bytes */
		needed += own - CALL;
	}
	return go_prologue_has_goroutine(symtab) && is_chain_long(symtab, start, needed);
}
