#include "clone_name.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/strbuf.h"

static const char begin_clone[] = " [clone ";

/* Without numbers: ".isra.0" is the word "isra" and a number. */
static const char *const words[] = { "cold",	 "part",    "isra",	   "constprop", "lto_priv",
				     "localalias", "llvm",    "__uniq",	   "specialized", "argprom",
				     "argelim",	 "retelim" };

/* Length of one suffix at `text`, ".isra.0"; 0: none. */
static size_t one_suffix(const char *text)
{
	for (size_t i = 0; text[0] == '.' && i < sizeof(words) / sizeof(words[0]); i++) {
		size_t length = strlen(words[i]) + 1, digits;

		if (strncmp(text + 1, words[i], length - 1) != 0)
			continue;
		digits = text[length] == '.' ? strspn(text + length + 1, "0123456789") : 0;
		if (digits)
			length += 1 + digits;
		if (!text[length] || text[length] == '.' || text[length] == ']')
			return length;
	}
	return 0;
}

/* Is all of the text such suffixes? */
static bool all_suffixes(const char *text)
{
	for (size_t length; *text; text += length) {
		length = one_suffix(text);
		if (!length)
			return false;
	}
	return true;
}

size_t clone_name_length(const char *name)
{
	const char *clone = strstr(name, begin_clone);

	if (clone)
		return (size_t)(clone - name);
	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		if (dot > name && all_suffixes(dot))
			return (size_t)(dot - name);
	}
	return strlen(name);
}

char *clone_name_suffix(const char *name)
{
	const char *at = name + clone_name_length(name);
	struct strbuf suffix = { 0 };

	while (strncmp(at, begin_clone, strlen(begin_clone)) == 0) {
		size_t length = strcspn(at += strlen(begin_clone), "]");

		strbuf_add(&suffix, at, length);
		at += length + (at[length] == ']');
	}
	if (!suffix.length)
		strbuf_add(&suffix, at, strlen(at));
	return suffix.text;
}

static bool has_word(const char *suffix, const char *word)
{
	for (size_t length; *suffix; suffix += length) {
		length = one_suffix(suffix);
		if (!length)
			return false;
		if (strncmp(suffix + 1, word, strlen(word)) == 0)
			return true;
	}
	return false;
}

bool clone_suffix_is_cold(const char *suffix)
{
	return has_word(suffix, "cold");
}

bool clone_suffix_is_piece(const char *suffix)
{
	return has_word(suffix, "cold") || has_word(suffix, "part");
}

char *clone_suffix_identity(const char *suffix)
{
	struct strbuf identity = { 0 };

	strbuf_add(&identity, "", 0);
	for (size_t length; *suffix; suffix += length) {
		length = one_suffix(suffix);
		if (!length)
			break;
		if (strncmp(suffix, ".lto_priv", 9) == 0 || strncmp(suffix, ".__uniq", 7) == 0)
			strbuf_add(&identity, suffix, length);
	}
	return identity.text;
}
