/*
 * debug_sections.c - lays out an ELF file in reserved memory, and fills it in:
 *
 *	ELF header
 *	.debug_info, .debug_abbrev, ...		page-aligned, a zero byte after each
 *	section headers
 *	their names
 *
 * (Y3) Units are read one by one only if .debug_info isn't packed and no abbreviation has a form
 *	that refers to another unit: users of a DIE may follow every reference in it.
 * (Y4) The first UNIT_HEAD bytes of each unit are read: its header and its own DIE, with its kind
 *      and its code ranges.
 */
#include "debug_sections.h"

#include <assert.h>
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/elf/cursor.h"
#include "control/elf/unpack.h"

#define PAGE 4096u
#define UNIT_HEAD PAGE
#define PIECE (256u << 10) /* searched at a time */
#define SMALL (1u << 20) /* sections up to this size are read whole */
#define HUGE_PAGE (2u << 20)
#define SIZE_MAX_UNPACKED (2ULL << 30)
#define TOTAL_MAX (64ULL << 30)

static const struct {
	const char *name;
	enum sections_use use;
} known[] = {
	{ ".debug_info", SECTIONS_INFO },	   { ".debug_types", SECTIONS_ALWAYS },
	{ ".debug_abbrev", SECTIONS_ALWAYS },	   { ".debug_str", SECTIONS_ALWAYS },
	{ ".debug_str_offsets", SECTIONS_ALWAYS }, { ".debug_line_str", SECTIONS_ALWAYS },
	{ ".debug_addr", SECTIONS_ALWAYS },	   { ".debug_ranges", SECTIONS_ALWAYS },
	{ ".debug_rnglists", SECTIONS_ALWAYS },	   { ".debug_line", SECTIONS_LINES },
	{ ".debug_loc", SECTIONS_LOCATIONS },	   { ".debug_loclists", SECTIONS_LOCATIONS },
	{ ".gnu_debugaltlink", SECTIONS_ALWAYS },
};
#define KNOWN (sizeof(known) / sizeof(known[0]))
#define INFO 0 /* in this table */

struct section {
	uint64_t file_offset, file_size; /* 0: no such section */
	uint32_t packing; /* ELFCOMPRESS_*; 0: not packed */
	uint64_t size; /* in memory */
	uint64_t at; /* in memory */
	bool is_read;
};

struct unit {
	uint64_t start, end; /* in .debug_info */
	bool is_read;
};

/* Abbreviations of a unit, or of several. */
struct abbreviations {
	uint64_t offset;
	bool has_inlined;
};

struct sections {
	int fd;
	uint8_t *memory;
	size_t memory_size;
	struct section items[KNOWN];
	VEC(struct unit) units; /* Y3: else none */
	VEC(struct abbreviations) abbreviations; /* sorted */
	bool is_tangled;
	bool has_failed; /* the system refused to read something */
	Elf *elf;
};

/* ---- sections of the file -------------------------------------------------------------------- */

/* False: a form that this file doesn't handle. */
static bool note_section(struct sections *sections, size_t index, const Elf64_Shdr *header,
			 uint64_t file_size)
{
	struct section *section = &sections->items[index];
	Elf64_Chdr packed;

	if (header->sh_type == SHT_NOBITS || header->sh_offset > file_size ||
	    header->sh_size > file_size - header->sh_offset)
		return true;
	section->file_offset = header->sh_offset;
	section->file_size = section->size = header->sh_size;
	if (!(header->sh_flags & SHF_COMPRESSED))
		return true;
	if (section->file_size < sizeof(packed) ||
	    pread(sections->fd, &packed, sizeof(packed), (off_t)section->file_offset) !=
		    sizeof(packed))
		return false;
	section->packing = packed.ch_type;
	section->size = packed.ch_size;
	section->file_offset += sizeof(packed);
	section->file_size -= sizeof(packed);
	return packed.ch_size <= SIZE_MAX_UNPACKED && unpack_knows(packed.ch_type);
}

static bool note_sections(struct sections *sections, Elf *elf)
{
	Elf_Scn *section = NULL;
	struct stat stat;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0 || fstat(sections->fd, &stat) < 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		const Elf64_Shdr *header = elf64_getshdr(section);
		const char *name = header ? elf_strptr(elf, names, header->sh_name) : NULL;

		for (size_t i = 0; i < KNOWN && name; i++) {
			if (strcmp(name, known[i].name) == 0 && !sections->items[i].file_size &&
			    !note_section(sections, i, header, (uint64_t)stat.st_size))
				return false;
		}
	}
	return sections->items[INFO].file_size != 0;
}

/* ---- the file in memory ---------------------------------------------------------------------- */

static uint64_t page_up(uint64_t at)
{
	return (at + PAGE - 1) / PAGE * PAGE;
}

static bool reserve(struct sections *sections)
{
	uint64_t at = PAGE;

	for (size_t i = 0; i < KNOWN; i++) {
		sections->items[i].at = at;
		if (sections->items[i].size > TOTAL_MAX - at)
			return false;
		at = page_up(at + sections->items[i].size + 1);
	}
	sections->memory_size = (size_t)(at + PAGE);
	sections->memory = mmap(NULL, sections->memory_size, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sections->memory != MAP_FAILED)
		return true;
	sections->memory = NULL;
	return false;
}

/* Headers and names are on the last page. */
static void write_headers(struct sections *sections)
{
	Elf64_Ehdr *elf = (Elf64_Ehdr *)sections->memory;
	uint64_t at = sections->memory_size - PAGE, names = at + (KNOWN + 2) * sizeof(Elf64_Shdr);
	Elf64_Shdr *headers = (Elf64_Shdr *)(sections->memory + at);
	uint64_t name = names + 1;

	*elf = (Elf64_Ehdr){ .e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_shoff = at,
			     .e_ehsize = sizeof(*elf),
			     .e_shentsize = sizeof(*headers),
			     .e_shnum = KNOWN + 2,
			     .e_shstrndx = KNOWN + 1 };
	memcpy(elf->e_ident,
	       (uint8_t[]){ ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT },
	       7);
	for (size_t i = 0; i < KNOWN; i++) {
		const struct section *section = &sections->items[i];

		headers[i + 1] =
			(Elf64_Shdr){ .sh_name = (Elf64_Word)(name - names),
				      .sh_offset = section->at,
				      .sh_size = section->size,
				      .sh_addralign = 1,
				      .sh_type = section->file_size ? SHT_PROGBITS : SHT_NOBITS };
		memcpy(sections->memory + name, known[i].name, strlen(known[i].name));
		name += strlen(known[i].name) + 1;
	}
	headers[KNOWN + 1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
					   .sh_offset = names,
					   .sh_size = name - names,
					   .sh_addralign = 1 };
}

/* ---- reading --------------------------------------------------------------------------------- */

/* False: not all. What is missing would be zero, which is an offset or a name to those who follow
 * it from elsewhere. */
static bool read_at(struct sections *sections, void *to, uint64_t size, uint64_t from)
{
	uint64_t done = 0;
	ssize_t got;

	while (done < size && (got = pread(sections->fd, (uint8_t *)to + done,
					   (size_t)(size - done), (off_t)(from + done))) > 0)
		done += (uint64_t)got;
	sections->has_failed |= done < size;
	return done == size;
}

static bool read_packed(struct sections *sections, const struct section *section)
{
	_cleanup_free_ uint8_t *packed = malloc(section->file_size);

	sections->has_failed |= !packed;
	if (!packed || !read_at(sections, packed, section->file_size, section->file_offset))
		return false;
	unpack(section->packing, packed, section->file_size, sections->memory + section->at,
	       section->size);
	return true;
}

static void read_section(struct sections *sections, struct section *section)
{
	uint8_t *to = sections->memory + section->at;

	if (section->is_read || !section->file_size)
		return;
	if (section->size >= HUGE_PAGE) /* a fifth of the time, which is mostly page faults */
		madvise(to, section->size, MADV_HUGEPAGE);
	section->is_read = section->packing ?
				   read_packed(sections, section) :
				   read_at(sections, to, section->size, section->file_offset);
}

void sections_need(struct sections *sections, enum sections_use use)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (known[i].use == use)
			read_section(sections, &sections->items[i]);
	}
}

/* ---- units ----------------------------------------------------------------------------------- */

static bool read_bytes(struct sections *sections, uint64_t start, uint64_t end)
{
	const struct section *info = &sections->items[INFO];

	return read_at(sections, sections->memory + info->at + start, end - start,
		       info->file_offset + start);
}

/* Makes Y4 true. False: no unit follows. */
static bool note_unit(struct sections *sections, uint64_t start, uint64_t *ret_end)
{
	const struct section *info = &sections->items[INFO];
	const uint8_t *bytes = sections->memory + info->at + start;
	uint64_t left = info->size - start, length = 0;
	uint32_t word;

	if (!read_bytes(sections, start, start + (left < UNIT_HEAD ? left : UNIT_HEAD)) ||
	    left < sizeof(word) + sizeof(length))
		return false;
	memcpy(&word, bytes, sizeof(word));
	memcpy(&length, bytes + sizeof(word), sizeof(length));
	length = word == UINT32_MAX ? length : word;
	length += word == UINT32_MAX ? sizeof(word) + sizeof(length) : sizeof(word);
	if (length > left || length < sizeof(word) + sizeof(length))
		return false;
	*ret_end = start + length;
	return vec_push(&sections->units,
			(struct unit){ start, start + length, length <= UNIT_HEAD });
}

/* False: .debug_info must be read whole. */
static bool note_units(struct sections *sections)
{
	uint64_t size = sections->items[INFO].size, end = 0;

	if (sections->items[INFO].packing || sections->is_tangled || size <= SMALL)
		return false;
	while (end < size) {
		if (!note_unit(sections, end, &end))
			return false;
	}
	return true;
}

void sections_need_unit(struct sections *sections, uint64_t offset)
{
	size_t n = sorted_count(sections->units.count, i, sections->units.items[i].start <= offset);
	struct unit *unit;

	assert(!n || (!sections->is_tangled && !sections->items[INFO].packing)); /* Y3 */
	unit = n ? &sections->units.items[n - 1] : NULL;
	if (!unit || unit->is_read || sections->items[INFO].is_read)
		return;
	unit->is_read = read_bytes(sections, unit->start, unit->end);
}

bool sections_are_tangled(const struct sections *sections)
{
	return sections->is_tangled;
}

/* ---- abbreviations --------------------------------------------------------------------------- */

enum finding { ALONE, TANGLED, SPLIT };

static enum finding judge(uint64_t attribute, uint64_t form)
{
	if (attribute == DW_AT_dwo_name || attribute == DW_AT_GNU_dwo_name)
		return SPLIT;
	return form == DW_FORM_ref_addr || form == DW_FORM_ref_sig8 || form == DW_FORM_indirect ?
		       TANGLED :
		       ALONE;
}

static enum finding read_attributes(struct cursor *cursor)
{
	enum finding worst = ALONE;
	uint64_t attribute, form;

	do {
		enum finding finding;

		attribute = take_uleb(cursor);
		form = take_uleb(cursor);
		if (form == DW_FORM_implicit_const)
			skip_leb(cursor);
		finding = judge(attribute, form);
		worst = finding > worst ? finding : worst;
	} while ((attribute || form) && !cursor->failed);
	return worst;
}

/* The abbreviations of one unit. */
static enum finding read_table(struct sections *sections, struct cursor *cursor, uint64_t offset)
{
	struct abbreviations table = { .offset = offset };
	enum finding worst = ALONE;

	while (take_uleb(cursor) != 0 && !cursor->failed) {
		enum finding finding;

		table.has_inlined |= take_uleb(cursor) == DW_TAG_inlined_subroutine;
		take(cursor, 1); /* has it children? */
		finding = read_attributes(cursor);
		worst = finding > worst ? finding : worst;
	}
	return vec_push(&sections->abbreviations, table) ? worst : SPLIT;
}

static enum finding read_abbreviations(struct sections *sections)
{
	size_t size;
	const uint8_t *bytes = sections_bytes(sections, ".debug_abbrev", &size);
	struct cursor cursor = { bytes, bytes + size, false };
	enum finding worst = ALONE;

	while (cursor.at < cursor.end && !cursor.failed) {
		enum finding finding = read_table(sections, &cursor, (uint64_t)(cursor.at - bytes));

		worst = finding > worst ? finding : worst;
	}
	return cursor.failed && worst == ALONE ? TANGLED : worst;
}

bool sections_may_inline(const struct sections *sections, uint64_t abbreviations)
{
	size_t n = sorted_count(sections->abbreviations.count, i,
				sections->abbreviations.items[i].offset <= abbreviations);

	if (!n || sections->abbreviations.items[n - 1].offset != abbreviations)
		return true; /* a table within another */
	return sections->abbreviations.items[n - 1].has_inlined;
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct sections *fill(struct sections *sections)
{
	enum finding finding;

	write_headers(sections);
	sections_need(sections, SECTIONS_ALWAYS);
	finding = read_abbreviations(sections);
	if (finding == SPLIT)
		return NULL;
	sections->is_tangled = finding == TANGLED;
	if (!note_units(sections)) {
		vec_free(&sections->units);
		sections_need(sections, SECTIONS_INFO);
	}
	if (sections->has_failed)
		return NULL;
	sections->elf = elf_memory((char *)sections->memory, sections->memory_size);
	return sections->elf ? sections : NULL;
}

struct sections *sections_open(Elf *elf, int fd)
{
	struct sections *sections = calloc(1, sizeof(*sections));

	if (!sections)
		return NULL;
	sections->fd = fd;
	if (note_sections(sections, elf) && reserve(sections) && fill(sections))
		return sections;
	sections_close(sections);
	return NULL;
}

void sections_close(struct sections *sections)
{
	if (!sections)
		return;
	if (sections->elf)
		elf_end(sections->elf);
	if (sections->memory)
		munmap(sections->memory, sections->memory_size);
	vec_free(&sections->units);
	vec_free(&sections->abbreviations);
	free(sections);
}

Elf *sections_elf(const struct sections *sections)
{
	return sections->elf;
}

/* ---- searching ------------------------------------------------------------------------------- */

static struct section *find_section(const struct sections *sections, const char *name)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (strcmp(known[i].name, name) == 0)
			return (struct section *)&sections->items[i];
	}
	return NULL;
}

const uint8_t *sections_bytes(const struct sections *sections, const char *name, size_t *ret_size)
{
	const struct section *section = find_section(sections, name);

	*ret_size = section && section->is_read ? section->size : 0;
	return section ? sections->memory + section->at : NULL;
}

/* Pieces overlap: bytes across the border of two pieces are whole in one. */
static void scan_file(struct sections *sections, const struct section *section,
		      sections_piece *piece, void *context)
{
	_cleanup_free_ uint8_t *bytes = malloc(PIECE);
	uint64_t at = 0;

	while (bytes && at < section->size) {
		uint64_t want = section->size - at < PIECE ? section->size - at : PIECE;

		if (!read_at(sections, bytes, want, section->file_offset + at))
			return;
		piece(context, bytes, want, at);
		if (want < PIECE)
			return;
		at += PIECE - SECTIONS_OVERLAP;
	}
}

void sections_scan(struct sections *sections, const char *name, sections_piece *piece,
		   void *context)
{
	struct section *section = find_section(sections, name);

	if (!section || !section->file_size)
		return;
	if (section->is_read)
		piece(context, sections->memory + section->at, section->size, 0);
	else if (!section->packing)
		scan_file(sections, section, piece, context);
}
