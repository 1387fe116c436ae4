/*
 * sdt.h - static markers: what <sys/sdt.h> leaves in a file.
 *
 * Each marker is a nop in the code and a note (.note.stapsdt) that says where it is, what it is
 * called, and where its arguments are at that instruction, in the assembler's words ("-4@%edi
 * 8@-16(%rbp)"). One that has a semaphore is passed only while that 16-bit counter isn't 0.
 *
 * Notes are hostile input. Addresses are the file's own, prelinking undone. Reads files, owns what
 * it returns.
 */
#ifndef DYNTRACE_SDT_H
#define DYNTRACE_SDT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"

#define SDT_ARGUMENTS_MAX 16u

struct elf_image;

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

/* All markers of the file; one whose note is damaged, or which isn't in code, isn't one. */
struct error *sdt_read(const struct elf_image *image, struct markers *ret_markers);
struct symtab;
struct error *sdt_of_symtab(const struct symtab *symtab, struct markers *ret_markers);
void markers_free(struct markers *markers);

/* ---- arguments (sdt_argument.c) -------------------------------------------------------------- */

enum sdt_kind {
	SDT_UNKNOWN, /* not understood, or a symbol that isn't known */
	SDT_REGISTER, /* reg, from byte `shift` on */
	SDT_XMM, /* reg */
	SDT_CONSTANT, /* disp */
	SDT_MEMORY, /* at disp + base + index * scale (+ segment) */
};

#define SDT_NO_REGISTER 0xff

struct sdt_argument {
	enum sdt_kind kind;
	uint8_t size; /* 1, 2, 4, 8: governs, whatever the register's name says */
	bool is_signed, is_float;
	uint8_t reg; /* hardware number */
	uint8_t shift; /* bytes: 1 for ah, bh, ch, dh */
	uint8_t base, index; /* hardware numbers, or SDT_NO_REGISTER */
	uint8_t scale;
	uint8_t segment; /* 'f', 'g': fs, gs; 0: none */
	bool is_relative; /* disp is an address of the file: the module's bias goes on top */
	int64_t disp;
};

/* Where symbols are. False: no such one. */
struct sdt_symbols {
	bool (*find)(void *context, const char *name, uint64_t *ret_address);
	void *context;
};

/* Takes the next argument off *text; false: there is none. What can't be understood is SDT_UNKNOWN. */
bool sdt_next_argument(const char **text, const struct sdt_symbols *symbols,
		       struct sdt_argument *ret_argument);

#endif
