/* loc_parse.c - splits a LOC into its parts. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "loc_parse.h"

/* The whole text as a number of C: 0x1f, 31, 037. */
static bool parse_number(const char *text, uint64_t *ret_number)
{
	unsigned long long number;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	number = strtoull(text, &end, 0);
	if (errno || *end)
		return false;
	*ret_number = number;
	return true;
}

/* Is it FILE:LINE, and not a C++ name (ns::f)? */
static bool is_source_line(const char *text)
{
	const char *colon = strrchr(text, ':');

	return colon && colon > text && colon[-1] != ':' && isdigit((unsigned char)colon[1]) &&
	       colon[1 + strspn(colon + 1, "0123456789")] == '\0';
}

/* The single colon of PROVIDER:NAME, not the two of C++ names; NULL: none. */
static char *marker_colon(char *text)
{
	size_t length = strspn(
		text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.*?[]");

	return length && text[length] == ':' && text[length + 1] &&
			       !strchr(text + length + 1, ':') ?
		       text + length :
		       NULL;
}

static struct error *parse_marker(const char *text, char *body, char *colon,
				  struct location *location)
{
	*colon = '\0';
	location->is_glob = strpbrk(body, "*?[") || strpbrk(colon + 1, "*?[");
	location->provider = strdup(body);
	location->symbol = strdup(colon + 1);
	return location->provider && location->symbol ? NULL : error_errno(ENOMEM, "'%s'", text);
}

/* A C identifier, or a compiler's clone of one (foo.part.0): a '+' after it begins an offset. */
static bool is_plain_name(const char *text, size_t length)
{
	static const char word[] = "operator";

	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("_.$*?", text[i]))
			return false;
	}
	return length < strlen(word) ||
	       memcmp(text + length - strlen(word), word, strlen(word)) != 0;
}

/* Cuts SYMBOL+OFFSET at the '+', unless the '+' is part of the name. */
static struct error *split_offset(const char *text, char *symbol, uint64_t *ret_offset)
{
	char *plus = strrchr(symbol, '+');

	*ret_offset = 0;
	if (!plus)
		return NULL;
	if (parse_number(plus + 1, ret_offset)) {
		*plus = '\0';
		if (plus == symbol)
			return error_new(ERROR_USAGE, "'%s': no symbol before the offset", text);
		return NULL;
	}
	if (!is_plain_name(symbol, (size_t)(plus - symbol)))
		return NULL;
	return error_new(ERROR_USAGE, "'%s': '%s' is not an offset (write 0x1f, 31 or 037)",
			 text, plus + 1);
}

static struct error *split_module(const char *text, char *body, char **ret_module)
{
	char *at = strrchr(body, '@');

	*ret_module = NULL;
	/* puts@plt is a name; puts@plt@MODULE has a module. */
	if (!at || (strncmp(at, "@plt", 4) == 0 && (at[4] == '\0' || at[4] == '+')))
		return NULL;
	if (at[1] == '\0')
		return error_new(ERROR_USAGE, "'%s': no module after the '@'", text);
	*at = '\0';
	*ret_module = strdup(at + 1);
	return *ret_module ? NULL : error_errno(ENOMEM, "'%s'", text);
}

/* Is it a glob? The brackets of "f() [clone .cold]", "f[abi:cxx11]" and "operator[]" are part of a
 * name. */
static bool is_pattern(const char *symbol)
{
	for (const char *at = strpbrk(symbol, "*?["); at; at = strpbrk(at + 1, "*?[")) {
		if (strncmp(at, "[clone ", 7) != 0 && strncmp(at, "[abi:", 5) != 0 &&
		    strncmp(at, "[]", 2) != 0)
			return true;
	}
	return false;
}

/* Takes `body`, the text without its module. */
static struct error *parse_body(const char *text, char *body, struct location *location)
{
	_cleanup_free_ char *symbol = body;
	char *marker = marker_colon(symbol);
	struct error *error;

	if (*symbol == '\0')
		return error_new(ERROR_USAGE,
				 "'%s': not a location (give SYMBOL, SYMBOL+OFFSET or ADDRESS)",
				 text);
	if (is_source_line(symbol)) {
		char *colon = strrchr(symbol, ':');
		uint64_t line;

		if (!parse_number(colon + 1, &line) || line == 0 || line > INT32_MAX)
			return error_new(ERROR_USAGE, "'%s': '%s' is not a line number", text,
					 colon + 1);
		*colon = '\0';
		location->line = (int)line;
		location->file = take_ptr(&symbol);
		return NULL;
	}
	if (marker)
		return parse_marker(text, symbol, marker, location);
	if (isdigit((unsigned char)*symbol)) {
		if (!parse_number(symbol, &location->number))
			return error_new(ERROR_USAGE,
					 "'%s': not an address (write 0x1f, 31 or 037)",
					 text);
		return NULL;
	}
	error = split_offset(text, symbol, &location->number);
	if (error)
		return error;
	location->is_glob = is_pattern(symbol);
	if (location->is_glob && location->number)
		return error_new(ERROR_USAGE, "'%s': a pattern can't have an offset", text);
	location->symbol = take_ptr(&symbol);
	return NULL;
}

struct error *location_parse(const char *text, struct location *ret_location)
{
	struct location location = { .text = strdup(text) };
	char *body = strdup(text);
	struct error *error;

	if (!location.text || !body) {
		free(location.text);
		free(body);
		return error_errno(ENOMEM, "'%s'", text);
	}
	error = split_module(text, body, &location.module);
	if (error)
		free(body);
	else
		error = parse_body(text, body, &location);
	if (error) {
		location_clear(&location);
		return error;
	}
	*ret_location = location;
	return NULL;
}

void location_clear(struct location *location)
{
	free(location->text);
	free(location->file);
	free(location->provider);
	free(location->symbol);
	free(location->module);
	*location = (struct location){ 0 };
}
