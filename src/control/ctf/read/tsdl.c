#include "tsdl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct tsdl tsdl_begin(const char *text, size_t length)
{
	return (struct tsdl){ .at = text, .end = text + length,
			      .failed = memchr(text, 0, length) != NULL };
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* Skips space and comments. */
static void skip(struct tsdl *tsdl)
{
	while (tsdl->at < tsdl->end) {
		if (is_space(*tsdl->at)) {
			tsdl->at++;
			continue;
		}
		if (tsdl->end - tsdl->at < 2 || memcmp(tsdl->at, "/*", 2) != 0)
			return;
		const char *end = memmem(tsdl->at + 2, (size_t)(tsdl->end - tsdl->at) - 2, "*/", 2);
		tsdl->failed |= !end;
		tsdl->at = end ? end + 2 : tsdl->end;
	}
}

/* Goes to the end of a string whose opening quote was taken. */
static void take_string(struct tsdl *tsdl)
{
	tsdl->word = tsdl->at;
	while (tsdl->at < tsdl->end && *tsdl->at != '"' && *tsdl->at != '\n')
		tsdl->at += *tsdl->at == '\\' && tsdl->end - tsdl->at > 1 ? 2 : 1;
	tsdl->length = (size_t)(tsdl->at - tsdl->word);
	tsdl->is_string = true;
	if (tsdl->at < tsdl->end && *tsdl->at == '"')
		tsdl->at++;
	else
		tsdl->failed = true;
}

bool tsdl_next(struct tsdl *tsdl)
{
	skip(tsdl);
	tsdl->word = tsdl->at;
	tsdl->length = 0;
	tsdl->is_string = false;
	if (tsdl->failed || tsdl->at >= tsdl->end)
		return false;
	if (*tsdl->at == '"') {
		tsdl->at++;
		take_string(tsdl);
		return !tsdl->failed;
	}
	while (tsdl->at < tsdl->end && is_letter(*tsdl->at))
		tsdl->at++;
	if (tsdl->at == tsdl->word) {
		bool is_pair = tsdl->end - tsdl->at > 1 && memcmp(tsdl->at, ":=", 2) == 0;

		tsdl->at += is_pair ? 2 : 1;
	}
	tsdl->length = (size_t)(tsdl->at - tsdl->word);
	return true;
}

bool tsdl_is(const struct tsdl *tsdl, const char *word)
{
	return !tsdl->is_string && tsdl->length == strlen(word) &&
	       !memcmp(tsdl->word, word, tsdl->length);
}

bool tsdl_take(struct tsdl *tsdl, const char *word)
{
	struct tsdl before = *tsdl;

	if (tsdl_next(tsdl) && tsdl_is(tsdl, word))
		return true;
	before.failed = tsdl->failed;
	*tsdl = before;
	return false;
}

void tsdl_expect(struct tsdl *tsdl, const char *text)
{
	struct tsdl wanted = tsdl_begin(text, strlen(text));

	while (!tsdl->failed && tsdl_next(&wanted)) {
		if (!tsdl_next(tsdl) || tsdl->is_string != wanted.is_string ||
		    tsdl->length != wanted.length ||
		    memcmp(tsdl->word, wanted.word, wanted.length) != 0)
			tsdl->failed = true;
	}
}

uint64_t tsdl_unsigned(struct tsdl *tsdl, uint64_t most)
{
	uint64_t value = 0;
	bool is_number = tsdl_next(tsdl) && !tsdl->is_string && tsdl->length;

	for (size_t i = 0; is_number && i < tsdl->length; i++) {
		char c = tsdl->word[i];

		is_number = c >= '0' && c <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
			    !__builtin_add_overflow(value, (uint64_t)(c - '0'), &value);
	}
	/* "010" would be octal to other readers */
	if (!is_number || value > most || (tsdl->length > 1 && tsdl->word[0] == '0')) {
		tsdl->failed = true;
		return 0;
	}
	return value;
}

int64_t tsdl_signed(struct tsdl *tsdl)
{
	bool is_negative = tsdl_take(tsdl, "-");
	uint64_t value = tsdl_unsigned(tsdl, (uint64_t)INT64_MAX + is_negative);

	return (int64_t)(is_negative ? 0 - value : value);
}

char *tsdl_name(struct tsdl *tsdl, size_t most)
{
	bool is_name = tsdl_next(tsdl) && !tsdl->is_string && tsdl->length &&
		       tsdl->length <= most && is_letter(*tsdl->word) &&
		       !(*tsdl->word >= '0' && *tsdl->word <= '9');
	char *name = is_name ? strndup(tsdl->word, tsdl->length) : NULL;

	tsdl->failed |= !name;
	return name;
}

/* Appends what an escape stands for; gives its length, 0: none that metadata.c writes. */
static size_t unescape(const char *at, size_t length, char *to)
{
	if (length >= 2 && (at[1] == '"' || at[1] == '\\')) {
		*to = at[1];
		return 2;
	}
	unsigned value = 0;
	for (size_t i = 1; i < 4; i++) {
		if (i >= length || at[i] < '0' || at[i] > '7')
			return 0;
		value = value * 8 + (unsigned)(at[i] - '0');
	}
	*to = (char)value;
	return value && value <= UCHAR_MAX ? 4 : 0;
}

char *tsdl_string(struct tsdl *tsdl)
{
	bool is_string = tsdl_next(tsdl) && tsdl->is_string;
	char *text = is_string ? malloc(tsdl->length + 1) : NULL, *to = text;

	for (size_t i = 0, used; text && i < tsdl->length; i += used) {
		used = 1;
		*to = tsdl->word[i];
		if (*to == '\\')
			used = unescape(tsdl->word + i, tsdl->length - i, to);
		if (!used) {
			free(text);
			text = NULL;
			break;
		}
		to++;
	}
	if (text)
		*to = '\0';
	tsdl->failed |= !text;
	return text;
}
