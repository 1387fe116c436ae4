/*
 * cursor.h - reads the numbers of unwind tables and of debug information. For elf/ and dwarf/.
 */
#ifndef DYNTRACE_CURSOR_H
#define DYNTRACE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Pointer encodings, DW_EH_PE_*. */
#define ENCODING_FORMAT 0x0f
#define ENCODING_BASE 0x70
#define ENCODING_ABSOLUTE 0x00
#define ENCODING_ULEB 0x01
#define ENCODING_PC_RELATIVE 0x10
#define ENCODING_OMIT 0xff

/* Never reads past the end; failure is sticky and gives zeroes. */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool failed;
};

static inline uint64_t take(struct cursor *c, size_t n)
{
	uint64_t value = 0;

	if ((size_t)(c->end - c->at) < n) {
		c->failed = true;
		return 0;
	}
	memcpy(&value, c->at, n);
	c->at += n;
	return value;
}

static inline uint64_t take_leb(struct cursor *c, bool is_signed)
{
	uint64_t value = 0, byte;
	unsigned shift = 0;

	do {
		byte = take(c, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && shift < 64 && (byte & 0x40))
		value |= ~0ULL << shift;
	return value;
}

static inline uint64_t take_uleb(struct cursor *c)
{
	return take_leb(c, false);
}

static inline int64_t take_sleb(struct cursor *c)
{
	return (int64_t)take_leb(c, true);
}

static inline void skip_leb(struct cursor *c)
{
	take_uleb(c);
}

/* A length and as many bytes; an empty cursor, and failure, if fewer are left. */
static inline struct cursor take_block(struct cursor *c)
{
	uint64_t length = take_uleb(c);
	struct cursor block = { c->at, c->at, false };

	if (length > (uint64_t)(c->end - c->at)) {
		c->failed = true;
		return block;
	}
	c->at += length;
	block.end = c->at;
	return block;
}

/* By ENCODING_FORMAT: bytes, and whether they are signed; 0 bytes: not used for code addresses. */
static const struct {
	uint8_t size;
	bool is_signed;
} cursor_formats[16] = {
	[0x00] = { 8, false }, [0x02] = { 2, false }, [0x03] = { 4, false }, [0x04] = { 8, false },
	[0x0a] = { 2, true },  [0x0b] = { 4, true },  [0x0c] = { 8, true },
};

static inline uint64_t take_encoded(struct cursor *c, uint8_t encoding)
{
	size_t size = cursor_formats[encoding & ENCODING_FORMAT].size;
	uint64_t value = take(c, size);

	if (size == 0)
		c->failed = true;
	if (cursor_formats[encoding & ENCODING_FORMAT].is_signed && size < 8) {
		unsigned shift = 64 - 8 * (unsigned)size;

		value = (uint64_t)((int64_t)(value << shift) >> shift);
	}
	return value;
}

#endif
