/*
 * libdw walks .eh_frame (dwarf_next_cfi) but keeps to itself which code an FDE is about:
 * dwarf_frame_info tells the range of one row of it. So the addresses are decoded here. An FDE
 * starts with the address of its code and its length; letter R of its CIE's augmentation says how
 * they are written.
 */
#include "eh_frame.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <string.h>

#include "../base/vec.h"

#define ENCODING_FORMAT 0x0f
#define ENCODING_UNKNOWN DW_EH_PE_omit

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

/* By ENCODING_FORMAT: bytes, and whether they are signed; 0 bytes: not used for code addresses. */
static const struct {
	uint8_t size;
	bool is_signed;
} formats[16] = {
	[DW_EH_PE_absptr] = { 8, false }, [DW_EH_PE_udata2] = { 2, false },
	[DW_EH_PE_udata4] = { 4, false }, [DW_EH_PE_udata8] = { 8, false },
	[DW_EH_PE_sdata2] = { 2, true },  [DW_EH_PE_sdata4] = { 4, true },
	[DW_EH_PE_sdata8] = { 8, true },
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

struct reader {
	const struct image *image;
	Elf_Data table;
	uint64_t address; /* of the table */
	Dwarf_Off cie; /* the one that was looked at last, and its encoding */
	uint8_t encoding;
	struct ranges ranges;
};

static int read_entry(struct reader *r, Dwarf_Off at, Dwarf_Off *next, Dwarf_CFI_Entry *entry)
{
	return dwarf_next_cfi(r->image->header.e_ident, &r->table, true, at, next, entry);
}

static uint8_t cie_encoding(const Dwarf_CIE *cie)
{
	const char *letter = cie->augmentation;
	struct cursor c = { .at = cie->augmentation_data };

	if (*letter == '\0')
		return DW_EH_PE_absptr;
	if (*letter != 'z')
		return ENCODING_UNKNOWN;
	c.end = c.at + cie->augmentation_data_size;
	while (*++letter && !c.failed) {
		if (*letter == 'R')
			return (uint8_t)take(&c, 1);
		if (*letter == 'P')
			take_encoded(&c, (uint8_t)take(&c, 1));
		else if (*letter == 'L')
			take(&c, 1);
		else if (*letter != 'S' && *letter != 'B')
			return ENCODING_UNKNOWN;
	}
	return c.failed ? ENCODING_UNKNOWN : DW_EH_PE_absptr;
}

static uint8_t find_encoding(struct reader *r, Dwarf_Off cie)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (r->cie != cie) {
		bool found = read_entry(r, cie, &next, &entry) == 0 && dwarf_cfi_cie_p(&entry);

		r->encoding = found ? cie_encoding(&entry.cie) : ENCODING_UNKNOWN;
		r->cie = cie;
	}
	return r->encoding;
}

/* False: out of memory. */
static bool read_fde(struct reader *r, const Dwarf_FDE *fde)
{
	uint64_t here = r->address + (uint64_t)(fde->start - (const uint8_t *)r->table.d_buf);
	uint8_t encoding = find_encoding(r, fde->CIE_pointer);
	struct cursor c = { fde->start, fde->end, encoding == ENCODING_UNKNOWN };
	uint64_t start = take_encoded(&c, encoding);
	uint64_t size = take_encoded(&c, encoding & ENCODING_FORMAT);

	if ((encoding & ~ENCODING_FORMAT) == DW_EH_PE_pcrel)
		start += here;
	else if ((encoding & ~ENCODING_FORMAT) != 0)
		return true;
	if (c.failed || size == 0 || start + size < start || !image_is_executable(r->image, start))
		return true;
	return vec_push(&r->ranges, (struct range){ start, start + size });
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
	if ((encoding & ~ENCODING_FORMAT) == DW_EH_PE_pcrel)
		*ret_address += image->eh_frame_hdr + 4;
	*ret_size = UINT64_MAX;
	return !c.failed;
}

struct error *eh_frame_read(const struct image *image, struct ranges *ret_ranges)
{
	struct reader r = { .image = image, .cie = UINT64_MAX };
	Dwarf_Off at = 0, next = 0;
	Dwarf_CFI_Entry entry;
	struct bytes bytes;
	uint64_t length;
	int status;

	*ret_ranges = (struct ranges){ 0 };
	if (!find_table(image, &r.address, &length))
		return NULL;
	bytes = image_bytes(image, r.address, length);
	r.table = (Elf_Data){ .d_buf = (void *)bytes.at, .d_size = bytes.size };
	while ((status = read_entry(&r, at, &next, &entry)) != 1 && next > at) {
		if (status == 0 && !dwarf_cfi_cie_p(&entry) && !read_fde(&r, &entry.fde)) {
			vec_free(&r.ranges);
			return error_errno(ENOMEM, "%s", image->path);
		}
		at = next;
	}
	ranges_sort(&r.ranges);
	*ret_ranges = r.ranges;
	return NULL;
}
