/*
 * .eh_frame is a row of records: u32 length (0 ends it, 0xffffffff: a u64 follows), u32 id, body.
 * Id 0 makes it a CIE, which says how its FDEs write addresses (letter R of the augmentation);
 * otherwise it is an FDE, and the id is how far back, from itself, its CIE lies. An FDE's body
 * starts with the address of its code and its length.
 */
#include "eh_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "../base/vec.h"

/* Pointer encodings, DW_EH_PE_*. */
#define ENCODING_FORMAT 0x0f
#define ENCODING_BASE 0x70
#define ENCODING_ABSOLUTE 0x00
#define ENCODING_PC_RELATIVE 0x10
#define ENCODING_OMIT 0xff
#define ENCODING_UNKNOWN 0xfe

/* Reads on, never past the end; failure is sticky and gives zeroes. */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool failed;
};

static uint64_t take(struct cursor *c, size_t n)
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

static void skip_leb(struct cursor *c)
{
	while (take(c, 1) & 0x80)
		;
}

/* By ENCODING_FORMAT: bytes, and whether they are signed; 0 bytes: not used for code addresses. */
static const struct {
	uint8_t size;
	bool is_signed;
} formats[16] = {
	[0x00] = { 8, false }, [0x02] = { 2, false }, [0x03] = { 4, false }, [0x04] = { 8, false },
	[0x0a] = { 2, true },  [0x0b] = { 4, true },  [0x0c] = { 8, true },
};

static uint64_t take_encoded(struct cursor *c, uint8_t encoding)
{
	size_t size = formats[encoding & ENCODING_FORMAT].size;
	uint64_t value = take(c, size);

	if (size == 0)
		c->failed = true;
	if (formats[encoding & ENCODING_FORMAT].is_signed && size < 8) {
		unsigned shift = 64 - 8 * (unsigned)size;

		value = (uint64_t)((int64_t)(value << shift) >> shift);
	}
	return value;
}

struct cie {
	size_t offset;
	uint8_t encoding;
};

struct reader {
	const struct image *image;
	const uint8_t *bytes;
	uint64_t address; /* of bytes */
	VEC(struct cie) cies; /* by offset, as they come */
	struct ranges ranges;
	bool out_of_memory;
};

static uint8_t cie_encoding(struct cursor c)
{
	uint8_t version = (uint8_t)take(&c, 1);
	const char *letters = (const char *)c.at;
	size_t length = strnlen(letters, (size_t)(c.end - c.at));

	if (length == (size_t)(c.end - c.at))
		return ENCODING_UNKNOWN;
	c.at += length + 1;
	if (length == 0)
		return ENCODING_ABSOLUTE;
	if (letters[0] != 'z')
		return ENCODING_UNKNOWN;
	skip_leb(&c); /* code alignment */
	skip_leb(&c); /* data alignment */
	if (version == 1)
		take(&c, 1); /* return address register */
	else
		skip_leb(&c);
	skip_leb(&c); /* length of what follows */
	for (size_t i = 1; i < length && !c.failed; i++) {
		if (letters[i] == 'R')
			return (uint8_t)take(&c, 1);
		if (letters[i] == 'P')
			take_encoded(&c, (uint8_t)take(&c, 1));
		else if (letters[i] == 'L')
			take(&c, 1);
		else if (letters[i] != 'S' && letters[i] != 'B')
			return ENCODING_UNKNOWN;
	}
	return c.failed ? ENCODING_UNKNOWN : ENCODING_ABSOLUTE;
}

static uint8_t find_encoding(const struct reader *r, uint64_t offset)
{
	size_t low = 0, high = r->cies.count;

	if (high && r->cies.items[high - 1].offset == offset)
		return r->cies.items[high - 1].encoding;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->cies.items[middle].offset == offset)
			return r->cies.items[middle].encoding;
		if (r->cies.items[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return ENCODING_UNKNOWN;
}

static void read_fde(struct reader *r, struct cursor c, uint8_t encoding)
{
	uint64_t here = r->address + (uint64_t)(c.at - r->bytes);
	uint64_t start, size;

	if (encoding == ENCODING_UNKNOWN || encoding == ENCODING_OMIT)
		return;
	start = take_encoded(&c, encoding);
	size = take_encoded(&c, encoding & ENCODING_FORMAT);
	if ((encoding & ENCODING_BASE) == ENCODING_PC_RELATIVE)
		start += here;
	else if ((encoding & ~ENCODING_FORMAT) != ENCODING_ABSOLUTE)
		return;
	if (c.failed || size == 0 || start + size < start || !image_is_executable(r->image, start))
		return;
	if (!vec_push(&r->ranges, (struct range){ start, start + size }))
		r->out_of_memory = true;
}

/* One record; false: the end, or damage from which there is no going on. */
static bool read_record(struct reader *r, struct cursor *c)
{
	size_t offset = (size_t)(c->at - r->bytes);
	uint64_t length = take(c, 4);
	struct cursor body;
	uint64_t id_at, id;

	if (length == 0xffffffff)
		length = take(c, 8);
	if (c->failed || length < 4 || length > (uint64_t)(c->end - c->at))
		return false;
	body = (struct cursor){ c->at, c->at + length, false };
	c->at += length;
	id_at = (uint64_t)(body.at - r->bytes);
	id = take(&body, 4);
	if (id != 0)
		read_fde(r, body, find_encoding(r, id_at - id));
	else if (!vec_push(&r->cies, (struct cie){ offset, cie_encoding(body) }))
		r->out_of_memory = true;
	return !r->out_of_memory;
}

/* The table's address and size: by its section, else by its index (whose end isn't known). */
static bool find_table(const struct image *image, uint64_t *ret_address, uint64_t *ret_size)
{
	const Elf64_Shdr *section = image_section(image, ".eh_frame");
	uint8_t header[12];
	struct cursor c = { header, header + sizeof(header), false };
	uint8_t encoding;

	if (section && section->sh_addr) {
		*ret_address = section->sh_addr;
		*ret_size = section->sh_size;
		return true;
	}
	if (!image->eh_frame_hdr ||
	    image_read(image, image->eh_frame_hdr, header, sizeof(header)) != sizeof(header) ||
	    header[0] != 1)
		return false;
	encoding = header[1];
	c.at += 4;
	*ret_address = take_encoded(&c, encoding);
	if ((encoding & ENCODING_BASE) == ENCODING_PC_RELATIVE)
		*ret_address += image->eh_frame_hdr + 4;
	*ret_size = UINT64_MAX;
	return !c.failed;
}

struct error *eh_frame_read(const struct image *image, struct ranges *ret_ranges)
{
	struct reader r = { .image = image };
	_cleanup_free_ uint8_t *bytes = NULL;
	uint64_t length;
	size_t size = 0;
	struct cursor c;

	*ret_ranges = (struct ranges){ 0 };
	if (!find_table(image, &r.address, &length))
		return NULL;
	bytes = image_copy(image, r.address, length, &size);
	if (!bytes)
		return NULL;
	r.bytes = bytes;
	c = (struct cursor){ bytes, bytes + size, false };
	while (read_record(&r, &c))
		;
	vec_free(&r.cies);
	if (r.out_of_memory) {
		vec_free(&r.ranges);
		return error_errno(ENOMEM, "%s", image->path);
	}
	ranges_sort(&r.ranges);
	*ret_ranges = r.ranges;
	return NULL;
}
