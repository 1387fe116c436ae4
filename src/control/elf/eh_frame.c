/*
 * libdw walks .eh_frame (dwarf_next_cfi) but keeps to itself which code an FDE is about:
 * dwarf_frame_info tells the range of one row of it. So that is decoded here: an FDE starts with
 * the address of its code and its length, written as letter R of its CIE's augmentation says; if
 * that has letter L, the address of the LSDA follows, behind the length of all that is optional.
 */
#include "eh_frame.h"

#include <elfutils/libdw.h>
#include <errno.h>

#include "control/base/vec.h"
#include "cursor.h"

struct cie {
	Dwarf_Off offset;
	uint8_t code, lsda; /* encodings */
};

struct reader {
	const struct elf_image *image;
	Elf_Data table;
	uint64_t address; /* of the table */
	struct cie cie; /* the one that was looked at last */
	struct ranges *ranges; /* each may be NULL: not wanted */
	struct lsdas *lsdas;
};

static int read_entry(struct reader *r, Dwarf_Off at, Dwarf_Off *next, Dwarf_CFI_Entry *entry)
{
	return dwarf_next_cfi(r->image->header.e_ident, &r->table, true, at, next, entry);
}

static void read_cie(const Dwarf_CIE *entry, struct cie *cie)
{
	const char *letter = entry->augmentation;
	struct cursor c = { .at = entry->augmentation_data };

	if (*letter == '\0')
		cie->code = ENCODING_ABSOLUTE;
	if (*letter != 'z')
		return;
	cie->code = ENCODING_ABSOLUTE;
	c.end = c.at + entry->augmentation_data_size;
	while (*++letter) {
		if (*letter == 'R')
			cie->code = (uint8_t)take(&c, 1);
		else if (*letter == 'L')
			cie->lsda = (uint8_t)take(&c, 1);
		else if (*letter == 'P')
			take_encoded(&c, (uint8_t)take(&c, 1));
		else if (*letter != 'S' && *letter != 'B')
			c.failed = true;
	}
	if (c.failed)
		cie->code = ENCODING_OMIT;
}

static const struct cie *find_cie(struct reader *r, Dwarf_Off offset)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (r->cie.offset != offset) {
		r->cie = (struct cie){ offset, ENCODING_OMIT, ENCODING_OMIT };
		if (read_entry(r, offset, &next, &entry) == 0 && dwarf_cfi_cie_p(&entry))
			read_cie(&entry.cie, &r->cie);
	}
	return &r->cie;
}

/* The address at the cursor; fails for those relative to anything but the place they stand at. */
static uint64_t take_address(const struct reader *r, struct cursor *c, uint8_t encoding)
{
	uint64_t here = r->address + (uint64_t)(c->at - (const uint8_t *)r->table.d_buf);
	uint64_t value = take_encoded(c, encoding);

	if ((encoding & ~ENCODING_FORMAT) == ENCODING_PC_RELATIVE)
		return value ? value + here : 0;
	if ((encoding & ~ENCODING_FORMAT) != ENCODING_ABSOLUTE)
		c->failed = true;
	return value;
}

/* False: out of memory. */
static bool read_fde(struct reader *r, const Dwarf_FDE *fde)
{
	const struct cie *cie = find_cie(r, fde->CIE_pointer);
	struct cursor c = { fde->start, fde->end, false };
	uint64_t start = take_address(r, &c, cie->code);
	uint64_t size = take_encoded(&c, cie->code & ENCODING_FORMAT), lsda;

	if (c.failed || size == 0 || start + size < start || !elf_image_is_executable(r->image, start))
		return true;
	if (r->ranges && !vec_push(r->ranges, (struct range){ start, start + size }))
		return false;
	if (!r->lsdas || cie->lsda == ENCODING_OMIT)
		return true;
	skip_leb(&c); /* length of what is optional */
	lsda = take_address(r, &c, cie->lsda);
	return c.failed || lsda == 0 || vec_push(r->lsdas, (struct lsda){ start, lsda });
}

/* The table's address and size: by its section, else by its index (whose end isn't known). */
static bool find_table(const struct elf_image *image, uint64_t *ret_address, uint64_t *ret_size)
{
	const Elf64_Shdr *section = elf_image_section(image, ".eh_frame");
	uint8_t header[12];
	struct cursor c = { header, header + sizeof(header), false };
	uint8_t encoding;

	if (section && section->sh_addr) {
		*ret_address = section->sh_addr;
		*ret_size = section->sh_size;
		return true;
	}
	if (!image->eh_frame_hdr ||
	    elf_image_read(image, image->eh_frame_hdr, header, sizeof(header)) != sizeof(header) ||
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

static struct error *read_table(struct reader *r)
{
	Dwarf_Off at = 0, next = 0;
	Dwarf_CFI_Entry entry;
	struct bytes bytes;
	uint64_t length;
	int status;

	if (!find_table(r->image, &r->address, &length))
		return NULL;
	bytes = elf_image_bytes(r->image, r->address, length);
	r->table = (Elf_Data){ .d_buf = (void *)bytes.at, .d_size = bytes.size };
	while ((status = read_entry(r, at, &next, &entry)) != 1 && next > at) {
		if (status == 0 && !dwarf_cfi_cie_p(&entry) && !read_fde(r, &entry.fde))
			return error_errno(ENOMEM, "%s", r->image->path);
		at = next;
	}
	return NULL;
}

struct error *eh_frame_read(const struct elf_image *image, struct ranges *ret_ranges)
{
	struct ranges ranges = { 0 };
	struct reader r = { .image = image, .cie.offset = UINT64_MAX, .ranges = &ranges };
	struct error *error = read_table(&r);

	if (error) {
		vec_free(&ranges);
		return error;
	}
	ranges_sort(&ranges);
	*ret_ranges = ranges;
	return NULL;
}

struct error *eh_frame_lsdas(const struct elf_image *image, struct lsdas *ret_lsdas)
{
	struct lsdas lsdas = { 0 };
	struct reader r = { .image = image, .cie.offset = UINT64_MAX, .lsdas = &lsdas };
	struct error *error = read_table(&r);

	if (error) {
		vec_free(&lsdas);
		return error;
	}
	*ret_lsdas = lsdas;
	return NULL;
}
