/*
 * agent_elf.h - load the agent's ELF file, ready to be mapped by hand.
 *
 * Reads the file whole and checks it at every step. The file must keep the agent's law
 * (src/target/README.md): no writable data beside the loader's own, no imports, relative
 * relocations only. The caller owns the result of agent_elf_load and ends it with agent_elf_free.
 */
#ifndef DYNTRACE_AGENT_ELF_H
#define DYNTRACE_AGENT_ELF_H

#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"
#include "shared/reads.h"

struct agent_elf {
	uint8_t *bytes; /* memory image from address 0 on, whole pages */
	size_t size;
	size_t text_start, text_end; /* page aligned: the executable part */
	/* addresses of DT_VERSION_SYMBOL, dt_slow and so on, from the image's start */
	uint64_t version;
	uint64_t slow, gather, guard, trap, trap_return, call_op, fault, front, find, line_hit;
	uint64_t reads[DT_READS];
	struct image_relative {
		uint64_t offset;
		uint64_t addend;
	} *relatives;
	size_t relative_count;
};

struct error *agent_elf_load(const char *path, size_t size_max, struct agent_elf *ret_image);
/* Writes the image, relocated to run at `address`. */
void agent_elf_place(const struct agent_elf *image, uint64_t address, uint8_t *to);
void agent_elf_free(struct agent_elf *image);

#endif
