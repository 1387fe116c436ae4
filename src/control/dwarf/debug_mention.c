/*
 * debug_mention.c - which units may mention a name, or refer to a DIE.
 *
 * Looking for a name in every DIE takes seconds in hundreds of megabytes. But a DIE has its name in
 * one of three forms, each of which can be searched as bytes: the offset of the text in .debug_str
 * (the linker keeps each text once, and a text that ends another only as part of that), the text
 * itself, or an index into .debug_str_offsets, which holds the offset. Bytes that match by chance
 * mark a unit too many; no unit is missed.
 */
#include <dwarf.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "debug_state.h"

#define OFFSETS_FEW 4

struct mention {
	struct debug *debug;
	bool *marks;
	const char *name;
	size_t length;
	VEC(uint32_t) offsets; /* of the name, in .debug_str */
	uint8_t *bits; /* one per byte of .debug_str: the same offsets, if many; NULL: few */
	size_t text_size; /* of .debug_str */
	bool failed;
};

static void mark_all(struct debug *debug, bool *marks)
{
	memset(marks, true, debug->units.count * sizeof(*marks));
}

/* The unit that has this byte of .debug_info. */
static void mark_at(struct debug *debug, bool *marks, uint64_t offset)
{
	size_t n = sorted_count(debug->units.count, i,
				dwarf_dieoffset(&debug->units.items[i].die) <= offset);

	if (n)
		marks[n - 1] = true;
}

/* ---- finding bytes --------------------------------------------------------------------------- */

#define SAMPLE (16u << 10)

/* The index of the needle's byte that is rarest here. memchr finds it a dozen times as fast as
 * memmem finds the whole needle. */
static size_t rarest(const uint8_t *bytes, size_t size, const uint8_t *needle, size_t length)
{
	uint32_t counts[256] = { 0 };
	size_t best = 0;

	for (size_t i = 0; i < size && i < SAMPLE; i++)
		counts[bytes[i]]++;
	for (size_t i = 1; i < length; i++) {
		if (counts[needle[i]] < counts[needle[best]])
			best = i;
	}
	return best;
}

static void each_occurrence(struct mention *m, const uint8_t *bytes, size_t size, const void *what,
			    size_t length,
			    void (*found)(struct mention *m, const uint8_t *bytes, size_t size,
					  size_t at, uint64_t offset),
			    uint64_t offset)
{
	const uint8_t *needle = what, *at, *end = bytes + size;
	size_t index = rarest(bytes, size, needle, length);

	if (size < length)
		return;
	for (at = bytes + index; (at = memchr(at, needle[index], (size_t)(end - at))); at++) {
		const uint8_t *start = at - index;

		if ((size_t)(end - start) >= length && memcmp(start, needle, length) == 0)
			found(m, bytes, size, (size_t)(start - bytes), offset);
	}
}

/* ---- names as bytes -------------------------------------------------------------------------- */

/* Does the name end at `at`, or continue with template arguments? */
static bool ends_at(const uint8_t *at, const uint8_t *end)
{
	return at == end || *at == '\0' || *at == '<';
}

static void add_offset(struct mention *m, const uint8_t *bytes, size_t size, size_t at,
		       uint64_t offset)
{
	if (ends_at(bytes + at + m->length, bytes + size) && offset + at <= UINT32_MAX)
		m->failed |= !vec_push(&m->offsets, (uint32_t)(offset + at));
}

static void find_offsets(void *context, const uint8_t *bytes, size_t size, uint64_t offset)
{
	struct mention *m = context;

	each_occurrence(m, bytes, size, m->name, m->length, add_offset, offset);
}

static void mark_text(struct mention *m, const uint8_t *bytes, size_t size, size_t at,
		      uint64_t offset)
{
	if (ends_at(bytes + at + m->length, bytes + size))
		mark_at(m->debug, m->marks, offset + at);
}

/* ---- offsets of the name --------------------------------------------------------------------- */

/* A name that many others end with has many offsets. */
static void make_bits(struct mention *m)
{
	m->bits = calloc(1, m->text_size / 8 + 1);
	if (!m->bits) {
		m->failed = true;
		return;
	}
	for (size_t i = 0; i < m->offsets.count; i++)
		m->bits[m->offsets.items[i] / 8] |= (uint8_t)(1u << m->offsets.items[i] % 8);
}

static void each_offset(struct mention *m, const uint8_t *bytes, size_t size, uint64_t offset,
			void (*found)(struct mention *m, const uint8_t *bytes, size_t size,
				      size_t at, uint64_t offset))
{
	for (size_t i = 0; i < m->offsets.count && !m->bits; i++)
		each_occurrence(m, bytes, size, &m->offsets.items[i], sizeof(m->offsets.items[i]),
				found, offset);
	for (size_t i = 0; m->bits && i + sizeof(uint32_t) <= size; i++) {
		uint32_t value;

		memcpy(&value, bytes + i, sizeof(value));
		if (value < m->text_size && m->bits[value / 8] >> value % 8 & 1)
			found(m, bytes, size, i, offset);
	}
}

static void mark_unit(struct mention *m, const uint8_t *bytes, size_t size, size_t at,
		      uint64_t offset)
{
	mark_at(m->debug, m->marks, offset + at);
}

static void find_in_info(void *context, const uint8_t *bytes, size_t size, uint64_t offset)
{
	struct mention *m = context;

	each_offset(m, bytes, size, offset, mark_unit);
	if (m->length)
		each_occurrence(m, bytes, size, m->name, m->length, mark_text, offset);
}

/* Marks the units whose table of indices is the last that begins at or before this offset. */
static void mark_users(struct mention *m, const uint8_t *bytes, size_t size, size_t at,
		       uint64_t offset)
{
	uint64_t nearest = 0;
	bool any = false;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < m->debug->units.count; i++) {
			Dwarf_Die *die = &m->debug->units.items[i].die;
			Dwarf_Attribute attribute;
			Dwarf_Word base;

			if (!dwarf_attr(die, DW_AT_str_offsets_base, &attribute) ||
			    dwarf_formudata(&attribute, &base) != 0 || base > offset + at)
				continue;
			if (pass == 0 && (!any || base > nearest)) {
				nearest = base;
				any = true;
			} else if (pass == 1 && base == nearest) {
				m->marks[i] = true;
			}
		}
	}
}

static void find_in_indices(void *context, const uint8_t *bytes, size_t size, uint64_t offset)
{
	each_offset(context, bytes, size, offset, mark_users);
}

/* ---- queries --------------------------------------------------------------------------------- */

/* The last part of ns::S<a::b>::name<c>(d), without arguments: name. */
static const char *plain_name(const char *typed, size_t *ret_length)
{
	const char *start = typed;
	int depth = 0;

	for (const char *at = typed; *at && !(*at == '(' && depth == 0); at++) {
		if (strncmp(at, "operator", 8) == 0)
			break;
		depth += *at == '<';
		depth -= *at == '>';
		if (depth == 0 && at[0] == ':' && at[1] == ':')
			start = at + 2;
	}
	*ret_length = strncmp(start, "operator", 8) == 0 ? 8 : strcspn(start, "<(");
	if (!*ret_length)
		*ret_length = strlen(start);
	return start;
}

static void mark_name(struct mention *m)
{
	struct sections *sections = m->debug->sections;

	sections_bytes(sections, ".debug_str", &m->text_size);
	sections_scan(sections, ".debug_str", find_offsets, m);
	if (m->offsets.count > OFFSETS_FEW)
		make_bits(m);
	if (m->failed)
		return;
	sections_scan(sections, ".debug_info", find_in_info, m);
	if (m->offsets.count)
		sections_scan(sections, ".debug_str_offsets", find_in_indices, m);
}

bool *debug_mention(struct debug *debug, const char *name)
{
	struct mention m = { .debug = debug };
	bool *marks = calloc(debug->units.count + 1, sizeof(*marks));

	if (!marks)
		return NULL;
	m.marks = marks;
	m.name = plain_name(name, &m.length);
	/* Give up on operators, whose names continue with other signs, and on names outside the
	 * units themselves. */
	m.failed = !debug->sections || debug->has_parts || debug->alternative.dwarf || !m.length ||
		   m.length > SECTIONS_OVERLAP / 2 || strncmp(m.name, "operator", 8) == 0;
	if (!m.failed)
		mark_name(&m);
	if (m.failed)
		mark_all(debug, marks);
	vec_free(&m.offsets);
	free(m.bits);
	return marks;
}

void debug_mention_references(struct debug *debug, uint64_t offset, bool *marks)
{
	struct mention m = { .debug = debug, .marks = marks };

	if (!debug->sections || offset > UINT32_MAX || !vec_push(&m.offsets, (uint32_t)offset)) {
		mark_all(debug, marks);
		return;
	}
	sections_scan(debug->sections, ".debug_info", find_in_info, &m);
	vec_free(&m.offsets);
}
