/*
 * image.h - an ELF file as the loader sees it: segments, sections, dynamic table, bytes by address.
 *
 * Files are hostile and may shrink while they are read. Hence pread into memory of our own, never
 * mmap (a truncated mapping is a SIGBUS), and no library that takes memory for a count before
 * anyone has compared it with the file's size. Everything kept in a struct image has been checked:
 *
 * (I1) segments are sorted by address, don't wrap, lie below 2^47, and file_size <= size.
 * (I2) offset + file_size of a segment, and of a section that isn't NOBITS, lie in the file.
 */
#ifndef DYNTRACE_SYM_IMAGE_H
#define DYNTRACE_SYM_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"

struct segment {
	uint64_t address;
	uint64_t size; /* in memory */
	uint64_t offset;
	uint64_t file_size; /* the rest is zero */
	uint32_t flags; /* PF_* */
	uint8_t *bytes; /* file_size bytes, once image_segment_bytes has read them */
	bool unreadable; /* ... or has failed to */
};

/* What the dynamic table says, by tag; 0 where it says nothing. */
struct dynamic {
	uint64_t symtab, strtab, strsz, versym, hash, gnu_hash;
	uint64_t rela, relasz, jmprel, pltrelsz;
	uint64_t flags, flags_1;
	bool textrel, has_soname;
};

struct image {
	int fd; /* a duplicate, ours */
	char *path; /* for messages */
	uint64_t file_size;
	Elf64_Ehdr header;
	struct segment *segments;
	size_t segment_count;
	Elf64_Shdr *sections; /* may be none */
	size_t section_count;
	char *section_names;
	size_t section_names_size;
	uint64_t relro_start, relro_end;
	uint64_t eh_frame_hdr; /* address; 0: none */
	bool has_interpreter;
	struct dynamic dynamic;
};

struct error *image_open(int fd, const char *path, struct image *ret_image);
void image_close(struct image *image);

/* The segment whose bytes in the file hold this address; NULL: none. */
struct segment *image_segment(const struct image *image, uint64_t address);
/* The same, for memory beyond the file's bytes (.bss) too. */
struct segment *image_memory(const struct image *image, uint64_t address);
/* All of a segment's bytes, read on first use; NULL: can't be read. */
const uint8_t *image_segment_bytes(const struct image *image, struct segment *segment);
/* Copies up to n bytes at an address from the file; returns how many. */
size_t image_read(const struct image *image, uint64_t address, void *to, size_t n);
/* A copy of up to n bytes at an address, with 8 zero bytes behind it, which the caller frees.
 * NULL: nothing there. */
uint8_t *image_copy(const struct image *image, uint64_t address, uint64_t n, size_t *ret_size);
/* The same for bytes at a file offset. */
uint8_t *image_copy_file(const struct image *image, uint64_t offset, uint64_t n, size_t *ret_size);

const Elf64_Shdr *image_section(const struct image *image, const char *name); /* NULL: none */
bool image_is_executable(const struct image *image, uint64_t address);
/* A program (not a library): something that has a main. */
bool image_is_program(const struct image *image);

#endif
