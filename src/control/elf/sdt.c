#include "sdt.h"

#include <ctype.h>
#include <elf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/vec.h"
#include "symtab_state.h"

#define NOTE_NAME "stapsdt"
#define NOTE_TYPE 3
#define MARKERS_MAX 65536u
#define TEXT_MAX 1024u /* of one name, and of all arguments */

/* Takes a NUL-terminated text off the bytes; NULL: none, or not fit to be printed. */
static const char *take_text(struct bytes *rest)
{
	const uint8_t *start = rest->at;
	size_t length = rest->size ? strnlen((const char *)start, rest->size) : 0;

	if (length >= rest->size || length > TEXT_MAX)
		return NULL;
	for (size_t i = 0; i < length; i++) {
		if (!isprint(start[i]))
			return NULL;
	}
	rest->at += length + 1;
	rest->size -= length + 1;
	return (const char *)start;
}

static void marker_clear(struct marker *marker)
{
	free(marker->provider);
	free(marker->name);
	free(marker->arguments);
}

static struct error *add_marker(struct markers *markers, const struct marker *found)
{
	struct marker marker = { .provider = strdup(found->provider),
				 .name = strdup(found->name),
				 .arguments = strdup(found->arguments),
				 .address = found->address,
				 .semaphore = found->semaphore };

	if (marker.provider && marker.name && marker.arguments && vec_push(markers, marker))
		return NULL;
	marker_clear(&marker);
	return error_new(ERROR_FAILED, "out of memory");
}

/* The description of one note: address, base and semaphore, then three texts. */
static struct error *read_note(const struct elf_image *image, struct bytes description,
			       uint64_t base, struct markers *markers)
{
	uint64_t words[3];
	struct marker marker;

	if (description.size < sizeof(words) || markers->count >= MARKERS_MAX)
		return NULL;
	memcpy(words, description.at, sizeof(words));
	description.at += sizeof(words);
	description.size -= sizeof(words);
	/* Prelinking moves .stapsdt.base; the note keeps its old address. */
	uint64_t moved = base ? base - words[1] : 0;
	marker.address = words[0] + moved;
	marker.semaphore = words[2] ? words[2] + moved : 0;
	marker.provider = (char *)take_text(&description);
	marker.name = marker.provider ? (char *)take_text(&description) : NULL;
	marker.arguments = marker.name ? (char *)take_text(&description) : NULL;
	if (!marker.arguments || !*marker.provider || !*marker.name ||
	    !elf_image_is_executable(image, marker.address))
		return NULL;
	if (marker.semaphore && !elf_image_memory(image, marker.semaphore))
		return NULL;
	return add_marker(markers, &marker);
}

/* All notes of a section. libelf knows their alignment. */
static struct error *read_notes(const struct elf_image *image, Elf_Data *data, uint64_t base,
				struct markers *markers)
{
	size_t at = 0, name_at, description_at;
	struct error *error = NULL;
	GElf_Nhdr note;

	while (!error && (at = gelf_getnote(data, at, &note, &name_at, &description_at)) > 0) {
		const char *bytes = data->d_buf;

		if (note.n_type != NOTE_TYPE || note.n_namesz != sizeof(NOTE_NAME) ||
		    memcmp(bytes + name_at, NOTE_NAME, sizeof(NOTE_NAME)) != 0)
			continue;
		struct bytes description = { (const uint8_t *)bytes + description_at,
					     note.n_descsz };
		error = read_note(image, description, base, markers);
	}
	return error;
}

static int by_name(const void *a, const void *b)
{
	const struct marker *x = a, *y = b;
	int order = strcmp(x->provider, y->provider);

	if (!order)
		order = strcmp(x->name, y->name);
	return order ? order : (x->address > y->address) - (x->address < y->address);
}

/* Drops notes of the same place. A compiler that copies a loop's body copies the nop too, so one
 * marker may have several places. */
static void drop_doubles(struct markers *markers)
{
	size_t kept = 0;

	for (size_t i = 0; i < markers->count; i++) {
		if (kept && by_name(&markers->items[kept - 1], &markers->items[i]) == 0)
			marker_clear(&markers->items[i]);
		else
			markers->items[kept++] = markers->items[i];
	}
	markers->count = kept;
}

struct error *sdt_read(const struct symtab *symtab, struct markers *ret_markers)
{
	const struct elf_image *image = &symtab->image;
	const Elf64_Shdr *header = elf_image_section(image, ".stapsdt.base");
	uint64_t base = header ? header->sh_addr : 0;
	struct markers markers = { 0 };
	struct error *error = NULL;
	Elf_Scn *section = NULL;

	while (!error && (section = elf_nextscn(image->elf, section))) {
		GElf_Shdr notes;
		Elf_Data *data;

		if (!gelf_getshdr(section, &notes) || notes.sh_type != SHT_NOTE ||
		    notes.sh_size > image->file_size)
			continue;
		data = elf_getdata(section, NULL);
		if (data && data->d_buf)
			error = read_notes(image, data, base, &markers);
	}
	if (error) {
		markers_free(&markers);
		return error;
	}
	if (markers.count)
		qsort(markers.items, markers.count, sizeof(*markers.items), by_name);
	drop_doubles(&markers);
	*ret_markers = markers;
	return NULL;
}

void markers_free(struct markers *markers)
{
	for (size_t i = 0; i < markers->count; i++)
		marker_clear(&markers->items[i]);
	vec_free(markers);
}
