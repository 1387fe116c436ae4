/*
 * debug_sections.h - the debug sections of a file in memory, read as far as they are needed.
 *
 * libdw takes sections whole, when it opens a file; large programs have hundreds of megabytes of
 * them. So libdw is given an ELF file of our own making: its debug sections stand in reserved
 * memory, and only what somebody needs has been read, and unpacked. What hasn't been read is zero,
 * which libdw takes for nothing there: ask first.
 *
 * Read, never mapped. The file may be anything: what is damaged is missing.
 */
#ifndef DYNTRACE_DEBUG_SECTIONS_H
#define DYNTRACE_DEBUG_SECTIONS_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sections;

/* fd stays open, and the caller's, as long as they are used. NULL: this file is none that can be
 * read so (split units, memory). */
struct sections *sections_open(Elf *elf, int fd);
void sections_close(struct sections *sections);

/* The file for libdw. */
Elf *sections_elf(const struct sections *sections);

enum sections_use {
	SECTIONS_ALWAYS, /* what the others refer to: read when the file is opened */
	SECTIONS_INFO, /* .debug_info */
	SECTIONS_LINES,
	SECTIONS_LOCATIONS,
	SECTIONS_USES,
};

/* Reads all of those. */
void sections_need(struct sections *sections, enum sections_use use);
/* Reads the unit of .debug_info that has this byte. */
void sections_need_unit(struct sections *sections, uint64_t offset);
/* May units with these abbreviations (an offset) have inlined copies of functions? */
bool sections_may_inline(const struct sections *sections, uint64_t abbreviations);
/* Do units refer to each other? */
bool sections_are_tangled(const struct sections *sections);

/* All bytes of a section, in pieces that overlap by SECTIONS_OVERLAP. One that isn't in memory is
 * read for this, and isn't afterwards. */
#define SECTIONS_OVERLAP 1024u
typedef void sections_piece(void *context, const uint8_t *bytes, size_t size, uint64_t offset);
void sections_scan(struct sections *sections, const char *name, sections_piece *piece,
		   void *context);
/* A section that has been read. Its byte behind the last is 0. */
const uint8_t *sections_bytes(const struct sections *sections, const char *name, size_t *ret_size);

#endif
