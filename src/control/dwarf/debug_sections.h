/*
 * debug_sections.h - the debug sections of a file in memory, read as far as they are needed.
 *
 * libdw reads sections whole when it opens a file; large programs have hundreds of megabytes of
 * them. So libdw gets an ELF file made here: its debug sections lie in reserved memory, and are
 * read and unpacked as far as needed. Bytes that haven't been read are zero, which libdw takes for
 * nothing: call sections_need first.
 *
 * Files are read, never mapped. The file is hostile: damaged parts are missing.
 */
#ifndef DYNTRACE_DEBUG_SECTIONS_H
#define DYNTRACE_DEBUG_SECTIONS_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sections;

/* The caller keeps fd open until sections_close. NULL: the file can't be read in this way (split
 * units), some of it can't be read at all, or out of memory. */
struct sections *sections_open(Elf *elf, int fd);
void sections_close(struct sections *sections);

/* The file for libdw. */
Elf *sections_elf(const struct sections *sections);

enum sections_use {
	SECTIONS_ALWAYS, /* referred to by the others: read on open */
	SECTIONS_INFO, /* .debug_info */
	SECTIONS_LINES,
	SECTIONS_LOCATIONS,
	SECTIONS_USES,
};

/* Reads all sections of that use. */
void sections_need(struct sections *sections, enum sections_use use);
/* Reads the unit of .debug_info that contains this offset. */
void sections_need_unit(struct sections *sections, uint64_t offset);
/* May units whose abbreviations are at this offset have inlined copies of functions? */
bool sections_may_inline(const struct sections *sections, uint64_t abbreviations);
/* Do units refer to each other? */
bool sections_are_tangled(const struct sections *sections);

/* Calls back with all bytes of a section, in pieces that overlap by SECTIONS_OVERLAP. Reads a
 * section that isn't in memory, without keeping it. */
#define SECTIONS_OVERLAP 1024u
typedef void sections_piece(void *context, const uint8_t *bytes, size_t size, uint64_t offset);
void sections_scan(struct sections *sections, const char *name, sections_piece *piece,
		   void *context);
/* A section that has been read; a zero byte follows it. */
const uint8_t *sections_bytes(const struct sections *sections, const char *name, size_t *ret_size);

#endif
