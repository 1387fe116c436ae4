/*
 * tsdl.h - the words of a metadata text.
 *
 * Pure. The text is hostile: failure is sticky, and after it there are no more words.
 */
#ifndef DYNTRACE_TSDL_H
#define DYNTRACE_TSDL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tsdl {
	const char *at, *end; /* the rest of the text, which holds no NUL */
	const char *word; /* the last word, in the text; a string without its quotes */
	size_t length;
	bool is_string;
	bool failed; /* not the text that was expected */
};

/* Begins with the text. */
struct tsdl tsdl_begin(const char *text, size_t length);
/* Takes the next word: a name, a number, a string, ":=", or one other character. False: none. */
bool tsdl_next(struct tsdl *tsdl);
/* Is the next word this one? Takes it then. */
bool tsdl_take(struct tsdl *tsdl, const char *word);
/* Fails unless the next words are those of `text`, whatever the space between them. */
void tsdl_expect(struct tsdl *tsdl, const char *text);
/* Take a number or a string, or fail. The string is the caller's to free; NULL: failed. */
uint64_t tsdl_unsigned(struct tsdl *tsdl, uint64_t most);
int64_t tsdl_signed(struct tsdl *tsdl);
char *tsdl_string(struct tsdl *tsdl);
/* Takes a name of at most `most` bytes, or fails. The caller frees it. */
char *tsdl_name(struct tsdl *tsdl, size_t most);
/* Is the last word, which is no string, this one? */
bool tsdl_is(const struct tsdl *tsdl, const char *word);

#endif
