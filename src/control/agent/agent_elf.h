/*
 * agent_elf.h - the agent's ELF file, made ready to be mapped by hand.
 *
 * The file is read whole and checked at every step; it must keep the agent's law
 * (src/target/README.md): no writable data beside what the loader alone would write, no imports,
 * relative relocations only. The caller owns what agent_elf_load gives and ends it with agent_elf_free.
 */
#ifndef DYNTRACE_AGENT_ELF_H
#define DYNTRACE_AGENT_ELF_H

#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"

struct agent_elf {
	uint8_t *bytes; /* as it lies in memory from its address 0 on, whole pages */
	size_t size;
	size_t text_start, text_end; /* page aligned: what is executable */
	/* dt_slow and so on, from the image's start */
	uint64_t version; /* DT_VERSION_SYMBOL */
	uint64_t slow, gather, guard, trap, trap_return, call_op, fault, find;
	struct image_relative {
		uint64_t offset;
		uint64_t addend;
	} *relatives;
	size_t relative_count;
};

struct error *agent_elf_load(const char *path, size_t size_max, struct agent_elf *ret_image);
/* Writes the image as it must be when it runs at that address. */
void agent_elf_place(const struct agent_elf *image, uint64_t address, uint8_t *to);
void agent_elf_free(struct agent_elf *image);

#endif
