/*
 * sdt.h - static markers, as <sys/sdt.h> leaves them in a file.
 *
 * A marker is a nop in the code and a note (.note.stapsdt) with its address, its name, and the
 * places of its arguments at that instruction, in the assembler's syntax ("-4@%edi 8@-16(%rbp)").
 * A program passes a marker with a semaphore only while that 16-bit counter isn't 0.
 *
 * Notes are hostile input. Addresses are the file's own, prelinking undone.
 */
#ifndef DYNTRACE_SDT_H
#define DYNTRACE_SDT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symtab.h"

#define SDT_ARGUMENTS_MAX 16u


struct marker {
	char *provider, *name;
	char *arguments; /* as the note has them; "": none */
	uint64_t address; /* of the nop */
	uint64_t semaphore; /* 0: none */
};

struct markers {
	struct marker *items; /* by provider, name, address */
	size_t count;
	size_t room;
};

/* All markers of the file, without those that have a damaged note or aren't in code. The caller
 * frees. */
struct error *sdt_read(const struct symtab *symtab, struct markers *ret_markers);
void markers_free(struct markers *markers);

/* ---- arguments ------------------------------------------------------------------------------- */

enum sdt_kind {
	SDT_UNKNOWN, /* not understood, or with an unknown symbol */
	SDT_REGISTER, /* reg, from byte `shift` on */
	SDT_XMM, /* reg */
	SDT_CONSTANT, /* disp */
	SDT_MEMORY, /* at disp + base + index * scale (+ segment) */
};

#define SDT_NO_REGISTER 0xff

struct sdt_argument {
	enum sdt_kind kind;
	uint8_t size; /* 1, 2, 4, 8: governs, whatever the width of the register's name */
	bool is_signed, is_float;
	uint8_t reg; /* hardware number */
	uint8_t shift; /* bytes: 1 for ah, bh, ch, dh */
	uint8_t base, index; /* hardware numbers, or SDT_NO_REGISTER */
	uint8_t scale;
	uint8_t segment; /* 'f', 'g': fs, gs; 0: none */
	bool is_relative; /* disp is an address of the file: add the module's bias */
	int64_t disp;
};

/* Looks up a symbol's address. False: unknown. */
struct sdt_symbols {
	bool (*find)(void *context, const char *name, uint64_t *ret_address);
	void *context;
};

/* Takes the next argument off *text; false: no more. SDT_UNKNOWN: not understood. */
bool sdt_next_argument(const char **text, const struct sdt_symbols *symbols,
		       struct sdt_argument *ret_argument);

#endif
