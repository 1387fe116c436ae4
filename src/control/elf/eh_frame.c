/*
 * libdw walks .eh_frame (dwarf_next_cfi) but doesn't give the code of an FDE: dwarf_frame_info
 * gives the range of one row. This file decodes it. An FDE starts with the address of its code and
 * its length, encoded as letter R of its CIE's augmentation says. Letter z adds a block of optional
 * data, which holds the address of the LSDA if the CIE has letter L. Instructions follow.
 */
#include "eh_frame.h"

#include <elfutils/libdw.h>
#include <errno.h>

#include "control/base/vec.h"
#include "cursor.h"

#define FUNCTION_ALIGN 16

struct reader {
	const struct elf_image *image;
	Elf_Data table;
	uint64_t address; /* of the table */
	struct eh_frame_cie cie; /* the CIE read last */
};

static int read_entry(struct reader *r, Dwarf_Off at, Dwarf_Off *next, Dwarf_CFI_Entry *entry)
{
	return dwarf_next_cfi(r->image->header.e_ident, &r->table, true, at, next, entry);
}

/* The letters after z. False: damaged, or an unknown letter. */
static bool read_letters(struct eh_frame_cie *cie, const char *letter, struct cursor c)
{
	cie->code = ENCODING_ABSOLUTE;
	for (; *letter; letter++) {
		if (*letter == 'R')
			cie->code = (uint8_t)take(&c, 1);
		else if (*letter == 'L')
			cie->lsda = (uint8_t)take(&c, 1);
		else if (*letter == 'P')
			take_encoded(&c, (uint8_t)take(&c, 1));
		else if (*letter == 'S')
			cie->is_signal = true;
		else if (*letter != 'B')
			c.failed = true;
	}
	return !c.failed;
}

static void read_cie(const Dwarf_CIE *entry, struct eh_frame_cie *cie)
{
	const char *letters = entry->augmentation;
	struct cursor data = { .at = entry->augmentation_data };

	cie->code_align = entry->code_alignment_factor;
	cie->data_align = entry->data_alignment_factor;
	cie->return_register = entry->return_address_register;
	cie->start = (struct bytes){ entry->initial_instructions,
				     (size_t)(entry->initial_instructions_end -
					      entry->initial_instructions) };
	if (*letters == '\0')
		cie->code = ENCODING_ABSOLUTE;
	if (*letters != 'z')
		return;
	cie->has_data = true;
	data.end = data.at + entry->augmentation_data_size;
	if (!read_letters(cie, letters + 1, data))
		cie->code = ENCODING_OMIT;
}

static const struct eh_frame_cie *find_cie(struct reader *r, Dwarf_Off offset)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (r->cie.offset != offset) {
		r->cie = (struct eh_frame_cie){ .offset = offset,
						.code = ENCODING_OMIT,
						.lsda = ENCODING_OMIT };
		if (read_entry(r, offset, &next, &entry) == 0 && dwarf_cfi_cie_p(&entry))
			read_cie(&entry.cie, &r->cie);
	}
	return &r->cie;
}

/* The address at the cursor: absolute, or relative to its own place. Others fail. */
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

/* The optional data and the instructions, at the cursor. */
static void read_rest(const struct reader *r, struct cursor c, struct eh_frame_fde *fde)
{
	struct cursor data = fde->cie->has_data ? take_block(&c) : (struct cursor){ 0 };

	if (fde->cie->lsda != ENCODING_OMIT)
		fde->lsda = take_address(r, &data, fde->cie->lsda);
	if (data.failed)
		fde->lsda = 0;
	fde->is_damaged = c.failed;
	if (!c.failed)
		fde->code = (struct bytes){ c.at, (size_t)(c.end - c.at) };
}

/* False: the FDE can't be read, or describes no code. */
static bool read_fde(struct reader *r, const Dwarf_FDE *entry, struct eh_frame_fde *ret_fde)
{
	struct eh_frame_fde fde = { .cie = find_cie(r, entry->CIE_pointer) };
	struct cursor c = { entry->start, entry->end, false };
	uint64_t size;

	fde.start = take_address(r, &c, fde.cie->code);
	size = take_encoded(&c, fde.cie->code & ENCODING_FORMAT);
	if (c.failed || size == 0 || fde.start + size < fde.start ||
	    !elf_image_is_executable(r->image, fde.start))
		return false;
	fde.end = fde.start + size;
	read_rest(r, c, &fde);
	*ret_fde = fde;
	return true;
}

/* The table's address and size: by its section, else by its index, which doesn't tell its end. */
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

bool eh_frame_each(const struct elf_image *image,
		   bool (*found)(void *context, const struct eh_frame_fde *fde), void *context)
{
	struct reader r = { .image = image, .cie.offset = UINT64_MAX };
	Dwarf_Off at = 0, next = 0;
	Dwarf_CFI_Entry entry;
	struct bytes bytes;
	uint64_t length;
	int status;

	if (!find_table(image, &r.address, &length))
		return true;
	bytes = elf_image_bytes(image, r.address, length);
	r.table = (Elf_Data){ .d_buf = (void *)bytes.at, .d_size = bytes.size };
	while ((status = read_entry(&r, at, &next, &entry)) != 1 && next > at) {
		struct eh_frame_fde fde;

		if (status == 0 && !dwarf_cfi_cie_p(&entry) && read_fde(&r, &entry.fde, &fde) &&
		    !found(context, &fde))
			return false;
		at = next;
	}
	return true;
}

/* Unwinders look the frame of a signal handler up by an address before its instruction, so the
 * C library begins the FDE of its function __restore_rt, which is aligned, a byte too early. */
static uint64_t code_start(const struct eh_frame_fde *fde)
{
	return fde->start + (fde->cie->is_signal && (fde->start + 1) % FUNCTION_ALIGN == 0);
}

static bool add_range(void *context, const struct eh_frame_fde *fde)
{
	struct ranges *ranges = context;

	return vec_push(ranges, (struct range){ code_start(fde), fde->end });
}

struct error *eh_frame_read(const struct elf_image *image, struct ranges *ret_ranges)
{
	struct ranges ranges = { 0 };

	if (!eh_frame_each(image, add_range, &ranges)) {
		vec_free(&ranges);
		return error_errno(ENOMEM, "%s", image->path);
	}
	ranges_sort(&ranges);
	*ret_ranges = ranges;
	return NULL;
}
