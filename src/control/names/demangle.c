#include "demangle.h"

#include <ctype.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/strbuf.h"
#include "clone_name.h"

#define HASH_LENGTH 19 /* "::h" and 16 digits */

bool demangle_is_mangled(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0;
}

/* ---- C++ ------------------------------------------------------------------------------------- */

/* Names are hostile: 250 characters can stand for 570 MB, and ten more double that. */
#define CXX_LENGTH_MAX (64u << 10)

/* libstdc++'s demangler, without its allocations. Only the static library has it. */
int __gcclibcxx_demangle_callback(const char *name,
				  void (*piece)(const char *text, size_t length, void *context),
				  void *context);

struct readable {
	struct strbuf text;
	jmp_buf too_long;
};

/* The demangler can't be told to end. It keeps everything on its stack, so it can be left. */
static void add_piece(const char *text, size_t length, void *context)
{
	struct readable *readable = context;

	if (readable->text.length + length > CXX_LENGTH_MAX)
		longjmp(readable->too_long, 1);
	strbuf_add(&readable->text, text, length);
}

static char *demangle_cxx(const char *name)
{
	struct readable readable = { 0 };

	if (setjmp(readable.too_long) == 0 &&
	    __gcclibcxx_demangle_callback(name, add_piece, &readable) == 0 &&
	    !readable.text.failed && readable.text.text)
		return readable.text.text;
	strbuf_free(&readable.text);
	return NULL;
}

/* ---- Rust ------------------------------------------------------------------------------------ */

static bool ends_with_hash(const char *name, size_t length)
{
	const char *hash = name + length - HASH_LENGTH;

	return length > HASH_LENGTH && strncmp(hash, "::h", 3) == 0 &&
	       strspn(hash + 3, "0123456789abcdef") == 16;
}

/* Legacy Rust names are C++ names with escapes and a hash at the end. */
static char *tidy_legacy(char *name)
{
	static const struct {
		const char *code, *text;
	} escapes[] = { { "$LT$", "<" }, { "$GT$", ">" },    { "$RF$", "&" },	 { "$BP$", "*" },
			{ "$C$", "," },	 { "$LP$", "(" },    { "$RP$", ")" },	 { "$u20$", " " },
			{ "$u7b$", "{" }, { "$u7d$", "}" },  { "$u27$", "'" },	 { "$u5b$", "[" },
			{ "$u5d$", "]" }, { "..", "::" } };
	size_t length = strlen(name);
	struct strbuf buf = { 0 };

	if (!ends_with_hash(name, length))
		return name;
	name[length - HASH_LENGTH] = '\0';
	for (const char *at = name; *at;) {
		size_t i = 0, count = sizeof(escapes) / sizeof(escapes[0]);

		while (i < count && strncmp(at, escapes[i].code, strlen(escapes[i].code)) != 0)
			i++;
		if (i < count) {
			strbuf_add(&buf, escapes[i].text, strlen(escapes[i].text));
			at += strlen(escapes[i].code);
		} else {
			strbuf_add(&buf, at++, 1);
		}
	}
	free(name);
	return buf.text;
}

char *demangle(const char *name)
{
	char *readable;

	if (strncmp(name, "_R", 2) == 0)
		return demangle_rust(name);
	if (strncmp(name, "_Z", 2) != 0)
		return NULL;
	readable = demangle_cxx(name);
	return readable ? tidy_legacy(readable) : NULL;
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* Offset of the parameters: of the '(' outside template arguments that isn't operator()'s. */
static size_t name_length(const char *text)
{
	int depth = 0;

	for (size_t i = 0; text[i]; i++) {
		if (strncmp(text + i, "operator", 8) == 0) {
			i += 8;
			while (text[i] && strchr("<>=!+-*/%^&|~[]", text[i]))
				i++;
			if (strncmp(text + i, "()", 2) == 0)
				i += 2;
			if (!text[i])
				return i;
		}
		if (strncmp(text + i, "(anonymous namespace)", 21) == 0) {
			i += 20;
			continue;
		}
		depth += text[i] == '<';
		depth -= text[i] == '>' && depth > 0;
		if (text[i] == '(' && depth == 0)
			return i;
	}
	return strlen(text);
}

/* Offset of the name: after the result type, which templates have. */
static size_t name_start(const char *text, size_t length)
{
	int depth = 0;
	size_t start = 0;

	for (size_t i = 0; i < length; i++) {
		if (strncmp(text + i, "operator", 8) == 0)
			break;
		depth += text[i] == '<';
		depth -= text[i] == '>';
		if (text[i] == ' ' && depth == 0 && strncmp(text + i, " namespace)", 11) != 0)
			start = i + 1;
	}
	return start;
}

/* The text after the parameters; NULL: no parameters. */
static const char *behind_parameters(const char *parameters)
{
	int depth = 0;

	for (const char *at = parameters; *at; at++) {
		depth += *at == '(';
		depth -= *at == ')';
		if (depth == 0)
			return at + 1;
	}
	return NULL;
}

const char *demangle_without_result(const char *readable)
{
	return readable + name_start(readable, name_length(readable));
}

char *demangle_short(const char *readable)
{
	size_t length = name_length(readable), start = name_start(readable, length);
	const char *rest = behind_parameters(readable + length);
	char *name;

	if (!rest)
		return NULL;
	rest += strncmp(rest, " const", 6) == 0 ? 6 : 0;
	if (*rest && (*rest != '.' || clone_name_length(readable) != (size_t)(rest - readable)))
		return NULL;
	return asprintf(&name, "%.*s%s", (int)(length - start), readable + start, rest) < 0 ? NULL :
											     name;
}

/* A copy without spaces; with cut_template, also without template arguments at the end. */
static char *squeeze(const char *text, size_t length, bool cut_template)
{
	char *copy = malloc(length + 1);
	size_t used = 0;
	int depth = 0;

	if (!copy)
		return NULL;
	for (size_t i = 0; i < length; i++) {
		/* a tag of libstdc++ that users don't type */
		if (strncmp(text + i, "[abi:", 5) == 0) {
			while (i < length && text[i] != ']')
				i++;
		} else if (text[i] != ' ') {
			copy[used++] = text[i];
		}
	}
	copy[used] = '\0';
	if (cut_template && used && copy[used - 1] == '>') {
		for (size_t i = used; i-- > 0;) {
			depth += copy[i] == '>';
			depth -= copy[i] == '<';
			if (depth == 0) {
				if (i > 2 && copy[i - 1] == ':') /* Rust: f::<T> */
					i -= 2;
				copy[i] = '\0';
				break;
			}
		}
	}
	return copy;
}

/* Removes all template arguments: "Box<int>::push" to "Box::push". Those of operators stay. */
static void cut_templates(char *text)
{
	size_t used = 0;
	int depth = 0;

	for (size_t i = 0; text[i]; i++) {
		if (!depth && strncmp(text + i, "operator", 8) == 0) {
			memmove(text + used, text + i, strlen(text + i) + 1);
			return;
		}
		if (text[i] == '<') {
			if (!depth++ && used > 2 && text[used - 1] == ':' && text[i + 1] != '>')
				used -= 2; /* Rust: f::<T> */
		} else if (text[i] == '>' && depth) {
			depth--;
		} else if (!depth) {
			text[used++] = text[i];
		}
	}
	text[used] = '\0';
}

/* Is it the name without any template arguments? */
static bool same_without_templates(const char *text, size_t length, const char *wanted,
				   bool is_glob)
{
	const char *sign = strstr(wanted, "operator"), *less = strchr(wanted, '<');
	bool has_templates = less && (!sign || less < sign);
	_cleanup_free_ char *copy = has_templates || !memchr(text, '<', length) ?
					    NULL :
					    squeeze(text, length, false);

	if (!copy)
		return false;
	cut_templates(copy);
	return is_glob ? fnmatch(wanted, copy, 0) == 0 : strcmp(wanted, copy) == 0;
}

static bool same(const char *text, size_t length, bool cut_template, const char *wanted,
		 bool is_glob)
{
	_cleanup_free_ char *copy = squeeze(text, length, cut_template);

	return copy && (is_glob ? fnmatch(wanted, copy, 0) == 0 : strcmp(wanted, copy) == 0);
}

bool demangle_fits(const char *readable, const char *wanted, bool is_glob)
{
	_cleanup_free_ char *tight = squeeze(wanted, strlen(wanted), false);
	size_t length = name_length(readable), start = name_start(readable, length);
	const char *name = readable + start;

	if (!tight)
		return false;
	return same(name, strlen(name), false, tight, is_glob) ||
	       (start && same(readable, strlen(readable), false, tight, is_glob)) ||
	       same(name, length - start, false, tight, is_glob) ||
	       same(name, length - start, true, tight, is_glob) ||
	       same_without_templates(name, length - start, tight, is_glob);
}

bool demangle_may_fit(const char *mangled, const char *wanted)
{
	size_t length = name_length(wanted), end = length, start;
	char word[64];

	/* The last identifier before parameters and template arguments. */
	if (memchr(wanted, '<', length))
		end = (size_t)((const char *)memchr(wanted, '<', length) - wanted);
	start = end;
	while (start > 0 && (isalnum((unsigned char)wanted[start - 1]) || wanted[start - 1] == '_'))
		start--;
	if (start == end || end - start >= sizeof(word) || strstr(wanted, "operator"))
		return true;
	memcpy(word, wanted + start, end - start);
	word[end - start] = '\0';
	return strstr(mangled, word) != NULL;
}
