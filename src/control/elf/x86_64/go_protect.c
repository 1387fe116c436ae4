/*
 * go_protect.c - see go_protect.h.
 *
 * Ways to mprotect that a file shows:
 *  - A function with that name. Go's linker leaves out what nobody calls, and Go's table names the
 *    others: also those that were inlined everywhere, and those by which cgo calls C.
 *  - Its number, loaded shortly before a call of syscall.Syscall or one of its relatives.
 *  - C code that the loader binds to the libc's, or that has a libc inside (a static program).
 *  - Go code that isn't in the file: plugins. A table without names of the runtime's tells nothing.
 *
 * Go's own runtime protects none but memory that a setting, or an experiment, lets it close.
 */
#include "control/elf/go_protect.h"

#include <string.h>

#include "control/elf/go_functions.h"
#include "control/elf/symtab_state.h"

#define CALL_WITHIN 64 /* bytes behind the number */
#define CALL_LENGTH 5
#define MOVE_LENGTH 5
#define MOVES_MOST 65536 /* real programs have a few; files may be hostile */

static const char *const protects[] = { "mprotect", "pkey_mprotect" };
/* mov $number, %eax */
static const uint8_t moves[][MOVE_LENGTH] = { { 0xb8, 10 }, { 0xb8, 329 & 0xff, 329 >> 8 } };

static bool is_of_runtime(const char *name)
{
	return strncmp(name, "runtime.", strlen("runtime.")) == 0;
}

static bool is_protecting(const char *name)
{
	return strcasestr(name, protects[0]) && !is_of_runtime(name);
}

static bool is_loading(const char *name)
{
	return strcmp(name, "plugin.lastmoduleinit") == 0;
}

static bool is_allocating(const char *name)
{
	return strcmp(name, "runtime.mallocgc") == 0;
}

/* syscall.RawSyscall6, golang.org/x/sys/unix.SyscallNoError... */
static bool is_system_call(const struct symtab *symtab, uint64_t address)
{
	struct go_function function;

	return go_functions_at(symtab, address, &function) && function.start == address &&
	       function.name && strcasestr(function.name, "syscall");
}

static bool calls_soon(const struct symtab *symtab, uint64_t address, const uint8_t *bytes,
		       uint64_t size)
{
	struct go_function caller;

	if (go_functions_at(symtab, address, &caller) && caller.name && is_of_runtime(caller.name))
		return false;
	for (uint64_t i = 0; i < CALL_WITHIN && i + CALL_LENGTH <= size; i++) {
		int32_t distance;

		memcpy(&distance, bytes + i + 1, sizeof(distance));
		if (bytes[i] == 0xe8 &&
		    is_system_call(symtab, address + i + CALL_LENGTH + (uint64_t)(int64_t)distance))
			return true;
	}
	return false;
}

static bool calls_by_number(const struct symtab *symtab, const struct text_range *text,
			    const uint8_t move[MOVE_LENGTH])
{
	const uint8_t *at = text->bytes, *end = text->bytes + text->size;
	unsigned count = 0;

	while ((at = memmem(at, (size_t)(end - at), move, MOVE_LENGTH))) {
		at += MOVE_LENGTH;
		if (++count > MOVES_MOST ||
		    calls_soon(symtab, text->address + (uint64_t)(at - text->bytes), at,
			       (uint64_t)(end - at)))
			return true;
	}
	return false;
}

/* All code of Go's is in one segment. */
static bool has_number(const struct symtab *symtab)
{
	const struct text_range *text = symtab_text(symtab, symtab->go.text);
	bool found = !text;

	for (size_t i = 0; !found && i < sizeof(moves) / sizeof(moves[0]); i++)
		found = calls_by_number(symtab, text, moves[i]);
	return found;
}

/* Go's compiler writes no unwind table. */
static bool has_c(const struct symtab *symtab)
{
	bool found = !symtab_has_loader(symtab) && symtab_fdes(symtab)->count;

	for (size_t i = 0; !found && i < sizeof(protects) / sizeof(protects[0]); i++)
		found = symtab_binds(symtab, protects[i]);
	return found;
}

bool go_protect_may(const struct symtab *symtab)
{
	return !go_functions_any(symtab, is_allocating) ||
	       go_functions_any(symtab, is_protecting) || go_functions_any(symtab, is_loading) ||
	       has_c(symtab) || has_number(symtab);
}
