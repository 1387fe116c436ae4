/*
 * elf_image.h - an ELF file as the loader sees it: segments, dynamic table, bytes by address.
 *
 * libelf reads the file with ELF_C_READ: files are hostile and may shrink while they are read, and
 * a truncated mapping is a SIGBUS. Bytes stay until elf_image_close. Written by hand is only what
 * libelf lacks: addresses instead of offsets, and limits on what a header may claim.
 *
 * (I1) segments are sorted by address, don't wrap, lie below 2^47, and file_size <= size.
 * (I2) the bytes of a segment, and of a section found by name, lie in the file as it was when
 *      opened.
 */
#ifndef DYNTRACE_ELF_IMAGE_H
#define DYNTRACE_ELF_IMAGE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"

/* Bytes of the file, owned by the image; none: size 0. */
struct bytes {
	const uint8_t *at;
	size_t size;
};

struct segment {
	uint64_t address;
	uint64_t size; /* in memory */
	uint64_t offset;
	uint64_t file_size; /* the rest is zero */
	uint32_t flags; /* PF_* */
	const uint8_t *bytes; /* file_size bytes, once elf_image_segment_bytes has read them */
	bool unreadable; /* ... or has failed to */
};

/* Entries of the dynamic table, by tag; 0: no such entry. */
struct dynamic {
	uint64_t symtab, strtab, strsz, versym, verneed, hash, gnu_hash;
	uint64_t rela, relasz, jmprel, pltrelsz;
	uint64_t flags, flags_1;
	bool textrel, has_soname;
};

struct elf_image {
	int fd; /* a duplicate, owned */
	char *path; /* for messages */
	Elf *elf;
	uint64_t file_size;
	Elf64_Ehdr header;
	struct segment *segments;
	size_t segment_count;
	uint64_t relro_start, relro_end;
	uint64_t eh_frame_hdr; /* address; 0: none */
	bool has_interpreter;
	struct dynamic dynamic;
};

struct error *elf_image_open(int fd, const char *path, struct elf_image *ret_image);
void elf_image_close(struct elf_image *image);

/* The segment whose bytes in the file hold this address; NULL: none. */
struct segment *elf_image_segment(const struct elf_image *image, uint64_t address);
/* The segment whose memory holds this address, also beyond the file's bytes (.bss). */
struct segment *elf_image_memory(const struct elf_image *image, uint64_t address);
/* All of a segment's bytes, read on first use; NULL: can't be read. */
const uint8_t *elf_image_segment_bytes(const struct elf_image *image, struct segment *segment);
/* Up to n bytes at an address, as far as its segment goes in the file. */
struct bytes elf_image_bytes(const struct elf_image *image, uint64_t address, uint64_t n);
/* Copies up to n bytes at an address; returns how many. Unlike the bytes of elf_image_bytes, the
 * image doesn't keep them. */
size_t elf_image_read(const struct elf_image *image, uint64_t address, void *to, size_t n);

/* A section's header by its name; NULL: none that has bytes in the file (I2). */
const Elf64_Shdr *elf_image_section(const struct elf_image *image, const char *name);
/* The bytes of a section of that type; of another type: none. */
struct bytes elf_image_section_bytes(Elf_Scn *section, uint32_t type);
bool elf_image_is_executable(const struct elf_image *image, uint64_t address);
/* Is it a program (with a main), not a library? */
bool elf_image_is_program(const struct elf_image *image);

#endif
