/*
 * go_build.c - see go_build.h.
 *
 * The section .go.buildinfo, which no strip removes, begins with a header of 32 bytes: 14 bytes of
 * a magic word, the size of a pointer, and flags. Since Go 1.18 two strings follow, each behind its
 * length: the release, and a description of the build (modules, options). Experiments and other
 * compilers add words to the release.
 */
#include "go_build.h"

#include <string.h>

#include "symtab_state.h"

#define HEADER_SIZE 32u
#define FLAGS_AT 15u
#define STRINGS_FOLLOW 2u
#define PIECE 16384u
#define NAME_LEAST 5u /* go1.N */
#define NAME_MOST 15u

static const char magic[] = "\xff Go buildinf:";

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The number that the text begins with; false: too long, or none. */
static bool read_number(const char **at, const char *end, unsigned *ret_number)
{
	const char *start = *at;
	unsigned number = 0;

	for (; *at < end && is_digit(**at) && *at - start < 4; (*at)++)
		number = 10 * number + (unsigned)(**at - '0');
	*ret_number = number;
	return *at > start;
}

static bool parse_name(const char *at, size_t length, unsigned *ret_release)
{
	const char *end = at + length;
	unsigned release, minor;

	if (length < NAME_LEAST || length > NAME_MOST || memcmp(at, "go1.", 4) != 0)
		return false;
	at += 4;
	if (!read_number(&at, end, &release))
		return false;
	if (at < end && (*at++ != '.' || !read_number(&at, end, &minor) || at < end))
		return false;
	*ret_release = release;
	return true;
}

static struct bytes info_of(const struct symtab *symtab)
{
	const Elf64_Shdr *section = elf_image_section(&symtab->image, ".go.buildinfo");

	return section ? elf_image_bytes(&symtab->image, section->sh_addr, section->sh_size) :
			 (struct bytes){ 0 };
}

bool go_build_release(const struct symtab *symtab, unsigned *ret_release)
{
	struct bytes bytes = info_of(symtab);

	if (bytes.size <= HEADER_SIZE || memcmp(bytes.at, magic, sizeof(magic) - 1) != 0 ||
	    !(bytes.at[FLAGS_AT] & STRINGS_FOLLOW))
		return false;
	uint8_t length = bytes.at[HEADER_SIZE];
	return length <= bytes.size - HEADER_SIZE - 1 &&
	       parse_name((const char *)bytes.at + HEADER_SIZE + 1, length, ret_release);
}

/* Reads piece by piece, because the image would keep the whole. */
static bool has_word(const struct symtab *symtab, const struct segment *segment, const char *word)
{
	uint64_t at = segment->address, end = at + segment->file_size;
	size_t length = strlen(word);
	char piece[PIECE];

	while (at < end) {
		size_t size = end - at < PIECE ? end - at : PIECE;
		size_t got = elf_image_read(&symtab->image, at, piece, size);

		if (memmem(piece, got, word, length))
			return true;
		if (got < PIECE)
			return false;
		at += PIECE - length;
	}
	return false;
}

bool go_build_mentions(const struct symtab *symtab, const char *word)
{
	bool found = false;

	for (size_t i = 0; i < symtab->image.segment_count && !found; i++)
		found = has_word(symtab, &symtab->image.segments[i], word);
	return found;
}
