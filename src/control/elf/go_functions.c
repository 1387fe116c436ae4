/*
 * go_functions.c - see go_functions.h.
 *
 * The table begins with a header (struct pcHeader in Go's runtime): a magic number per format, the
 * number of functions, and offsets of its parts. One part has two words per function, by address:
 * where it starts, and where its record (struct _func) is. The last such word is the end of the
 * code. Since Go 1.18 these words have 32 bits, and addresses count from the start of the text.
 *
 * The table is found by its section. In a file without section headers it is searched in the
 * loaded bytes.
 */
#include "go_functions.h"

#include <errno.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "shared/sorted.h"
#include "symtab_state.h"

#define HEADER_SIZE 72u
#define HEADER_ALIGN 8u /* a linker aligns it more */
#define FUNCTIONS_MAX 4000000u
#define NAME_MAX_BYTES 4096u
#define STEPS_BEHIND_NAME 12u /* in a record */
#define LISTS_BEFORE_FUNCTIONS 8u /* in the header: offsets of these parts */
#define SIGNAL_RETURN "runtime.sigreturn" /* and __sigaction */
#define FLAG_OUTERMOST 1u /* flags in a record */
#define FLAG_SETS_RSP 2u

/* The formats that Go's runtime has had since 1.16. */
static const struct format {
	uint32_t magic;
	uint8_t word; /* bytes of a word in the list of functions */
	uint8_t text; /* offset of the text's address in the header; 0: addresses are whole */
	uint8_t names, functions; /* offsets of these parts' offsets in the header */
	uint8_t name; /* offset of the name in a record */
	uint8_t kind; /* of the function id, which a byte of flags follows; 0: unknown */
} formats[] = {
	{ 0xfffffffa, 8, 0, 24, 56, 8, 0 }, /* 1.16, 1.17 */
	{ 0xfffffff0, 4, 24, 32, 64, 4, 36 }, /* 1.18, 1.19 */
	{ 0xfffffff1, 4, 24, 32, 64, 4, 40 }, /* 1.20 and later */
};

static uint64_t word_at(struct bytes bytes, uint64_t offset, size_t size)
{
	uint64_t word = 0;

	if (offset <= bytes.size && bytes.size - offset >= size)
		memcpy(&word, bytes.at + offset, size);
	return word;
}

static struct bytes part_at(struct bytes bytes, uint64_t offset)
{
	return offset > bytes.size ? (struct bytes){ 0 } :
				     (struct bytes){ bytes.at + offset, bytes.size - offset };
}

static const struct format *find_format(struct bytes header)
{
	static const uint8_t rest[] = { 0, 0, 1, 8 }; /* x86-64: bytes of code units, pointers */

	if (header.size < HEADER_SIZE || memcmp(header.at + 4, rest, sizeof(rest)) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (word_at(header, 0, 4) == formats[i].magic)
			return &formats[i];
	}
	return NULL;
}

/* ---- where the table is ---------------------------------------------------------------------- */

static bool open_table(struct symtab *symtab, uint64_t address)
{
	struct go_table table = { .address = address,
				  .bytes = elf_image_bytes(&symtab->image, address, UINT64_MAX) };
	const struct format *format = find_format(table.bytes);

	if (!format)
		return false;
	table.format = format;
	table.count = word_at(table.bytes, 8, 8);
	if (format->text && !relocs_read_word(symtab, address + format->text, &table.text))
		return false;
	table.names = part_at(table.bytes, word_at(table.bytes, format->names, 8));
	table.functions_at = word_at(table.bytes, format->functions, 8);
	table.functions = part_at(table.bytes, table.functions_at);
	if (!table.count || table.count > FUNCTIONS_MAX ||
	    table.functions.size / format->word < 2 * table.count + 1)
		return false;
	symtab->go = table;
	return true;
}

static void search_segment(struct symtab *symtab, struct segment *segment)
{
	const uint8_t *bytes = elf_image_segment_bytes(&symtab->image, segment);
	uint64_t first = (HEADER_ALIGN - segment->address % HEADER_ALIGN) % HEADER_ALIGN;

	for (uint64_t i = first; bytes && segment->file_size >= HEADER_SIZE &&
				 i <= segment->file_size - HEADER_SIZE && !symtab->go.format;
	     i += HEADER_ALIGN) {
		if (bytes[i + 3] == 0xff && bytes[i + 2] == 0xff &&
		    find_format((struct bytes){ bytes + i, segment->file_size - i }))
			open_table(symtab, segment->address + i);
	}
}

static void find_table(struct symtab *symtab)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab" };

	symtab->go_read = true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const Elf64_Shdr *section = elf_image_section(&symtab->image, names[i]);

		if (section && open_table(symtab, section->sh_addr))
			return;
	}
	if (symtab->image.header.e_shoff && symtab->image.header.e_shnum)
		return;
	for (size_t i = 0; i < symtab->image.segment_count && !symtab->go.format; i++)
		search_segment(symtab, &symtab->image.segments[i]);
}

static const struct go_table *table_of(const struct symtab *symtab)
{
	if (!symtab->go_read)
		find_table(symtab_lazy(symtab));
	return symtab->go.format ? &symtab->go : NULL;
}

bool go_functions_exist(const struct symtab *symtab)
{
	return table_of(symtab) != NULL;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Word i of the list of functions; a whole address may have a relocation. */
static uint64_t list_word(const struct symtab *symtab, uint64_t i)
{
	const struct go_table *table = &symtab->go;
	uint64_t offset = i * table->format->word, word = 0;

	if (table->format->word == 4)
		return word_at(table->functions, offset, 4);
	relocs_read_word(symtab, table->address + table->functions_at + offset, &word);
	return word;
}

static uint64_t start_of(const struct symtab *symtab, uint64_t index)
{
	return symtab->go.text + list_word(symtab, 2 * index);
}

static const char *name_at(struct bytes names, uint64_t offset)
{
	struct bytes name = part_at(names, offset);
	size_t n = 0;

	for (; n < name.size && n < NAME_MAX_BYTES && name.at[n]; n++) {
		if (name.at[n] < ' ' || name.at[n] == 0x7f || name.at[n] == '@')
			return NULL;
	}
	return n && n < name.size && n < NAME_MAX_BYTES ? (const char *)name.at : NULL;
}

static struct go_function get(const struct symtab *symtab, uint64_t index)
{
	const struct go_table *table = &symtab->go;
	const struct format *format = table->format;
	struct bytes record = part_at(table->functions, list_word(symtab, 2 * index + 1));

	return (struct go_function){
		.name = name_at(table->names, word_at(record, format->name, 4)),
		.start = start_of(symtab, index),
		.end = start_of(symtab, index + 1),
		/* no id of the runtime's, no flags */
		.is_compiled = format->kind && record.size > format->kind + 2u &&
			       !word_at(record, format->kind, 2),
	};
}

bool go_functions_index(const struct symtab *symtab, uint64_t address, uint64_t *ret_index)
{
	const struct go_table *table = table_of(symtab);

	if (!table)
		return false;
	size_t after = sorted_count(table->count + 1, i, start_of(symtab, i) <= address);
	if (!after || after > table->count)
		return false;
	*ret_index = after - 1;
	return true;
}

bool go_functions_at(const struct symtab *symtab, uint64_t address,
		     struct go_function *ret_function)
{
	uint64_t index;

	if (!go_functions_index(symtab, address, &index))
		return false;
	*ret_function = get(symtab, index);
	return true;
}

uint64_t go_functions_count(const struct symtab *symtab)
{
	const struct go_table *table = table_of(symtab);

	return table ? table->count : 0;
}

bool go_functions_frame(const struct symtab *symtab, uint64_t index, struct go_frame *ret_frame)
{
	const struct go_table *table = table_of(symtab);

	if (!table || !table->format->kind || index >= table->count)
		return false;
	const struct format *format = table->format;
	struct bytes record = part_at(table->functions, list_word(symtab, 2 * index + 1));
	uint64_t steps = word_at(record, format->name + STEPS_BEHIND_NAME, 4);
	struct bytes lists = part_at(
		table->bytes, word_at(table->bytes, format->functions - LISTS_BEFORE_FUNCTIONS, 8));
	struct bytes list = part_at(lists, steps);
	struct go_function function = get(symtab, index);
	uint64_t flags = word_at(record, format->kind + 1u, 1);

	if (!steps || !list.size || function.end <= function.start || function.end >= UINT32_MAX)
		return false;
	*ret_frame = (struct go_frame){ .start = function.start,
					.end = function.end,
					.steps = list.at,
					.size = list.size,
					.is_compiled = function.is_compiled,
					.is_outermost = flags & FLAG_OUTERMOST,
					.sets_rsp = flags & FLAG_SETS_RSP,
					.ends_signal = function.name &&
						       !strncmp(function.name, SIGNAL_RETURN,
								strlen(SIGNAL_RETURN)) };
	return true;
}

bool go_functions_any(const struct symtab *symtab, bool (*fits)(const char *name))
{
	const struct go_table *table = table_of(symtab);
	uint64_t offset = table ? table->format->names : 0;
	uint64_t from = table ? word_at(table->bytes, offset, 8) : 0;
	uint64_t to = table ? word_at(table->bytes, offset + 8, 8) : 0; /* the next part */
	const char *at, *end;

	if (from >= to || to - from > table->names.size)
		return false;
	at = (const char *)table->names.at;
	end = at + (to - from);
	for (const char *next; at < end && (next = memchr(at, 0, (size_t)(end - at)));
	     at = next + 1) {
		if (fits(at))
			return true;
	}
	return false;
}

struct error *go_functions_add(struct symtab *symtab)
{
	const struct go_table *table = table_of(symtab);
	uint64_t budget = table ? (uint64_t)table->names.size * 4 : 0; /* hostile files */

	for (uint64_t i = 0; table && i < table->count && budget; i++) {
		struct go_function function = get(symtab, i);
		struct symbol symbol = { .name = function.name,
					 .address = function.start,
					 .size = function.end - function.start,
					 .kind = SYMBOL_FUNCTION,
					 .source = SOURCE_GO,
					 .global = true };

		if (!function.name || function.end <= function.start ||
		    !elf_image_is_executable(&symtab->image, function.start))
			continue;
		budget -= strnlen(function.name, budget);
		if (!vec_push(&symtab->symbols, symbol))
			return error_errno(ENOMEM, "%s", symtab->image.path);
	}
	return NULL;
}
