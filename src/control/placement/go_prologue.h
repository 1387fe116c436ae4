/*
 * go_prologue.h - the first instructions of a Go function, which compare the stack pointer with the
 * end of the goroutine's stack.
 *
 * Where the stack has no room left, or the scheduler wants the goroutine to yield, the function
 * calls runtime.morestack and begins anew: one call passes its first instruction several times.
 *
 * Go's runtime interrupts goroutines at any instruction and lets them go on there later, but not at
 * the branch of this check (its compiler marks the branch as no safe point: cmd/internal/obj/x86,
 * stacksplit, since Go 1.14). Pure.
 */
#ifndef DYNTRACE_GO_PROLOGUE_H
#define DYNTRACE_GO_PROLOGUE_H

#include "control/elf/symtab.h"

struct go_prologue {
	int32_t frame; /* the check compares rsp - frame with the word at r14 + 16 */
	uint8_t branch; /* offset of the branch after the check */
	uint8_t length; /* of all of it */
};

/* Reads the function that starts at that address of the file. False: it has no such check. */
bool go_prologue_read(const struct symtab *symtab, uint64_t start,
		      struct go_prologue *ret_prologue);

/* Does the program pass arguments in registers, and its goroutine in r14 (Go 1.17)? */
bool go_prologue_has_goroutine(const struct symtab *symtab);

/* Does the compiled Go code of the program (not C code linked with it) hold that address? */
bool go_prologue_is_go_code(const struct symtab *symtab, uint64_t address);

/* Is it a function of Go's runtime, by its package? */
bool go_prologue_is_runtime(const struct symbol *symbol);
/* Is the function made by Go's compiler, so that r14 is its goroutine at its start and its ends? */
bool go_prologue_keeps_goroutine(const struct symtab *symtab, uint64_t start);

struct go_hit {
	uint64_t address;
	bool gathers; /* values behind pointers, strings, a backtrace */
	bool checks; /* the stack, before anything else, as the function's first instructions do */
};

/*
 * Has the stack no room for such a hit in the function (H4)? A goroutine's stack has 928 bytes
 * below its guard. Of these, a function that has checked the stack may take 128, and those without
 * a check that call one another share the rest; the deepest such chain of Go 1.19's runtime that
 * doesn't end the program uses 304, and a program may have others (//go:nosplit). A hit takes up to
 * 360, one that gathers values 600, and 128 more where the red zone may be in use. Where
 * runtime.morestack is called, 8 are warranted.
 */
bool go_prologue_has_no_room(const struct symtab *symtab, const struct symbol *symbol,
			     const struct go_hit *hit);

#endif
