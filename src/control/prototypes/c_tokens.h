/*
 * c_tokens.h - C text as tokens: without comments and lines for the preprocessor, of which only the
 * markers of lines (# 12 "stdio.h") are read. Pure; the text outlives the reader.
 */
#ifndef DYNTRACE_C_TOKENS_H
#define DYNTRACE_C_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

enum c_token { C_END, C_NAME, C_NUMBER, C_STRING, C_DOTS, C_SIGN };

struct c_tokens {
	const char *at; /* behind the token */
	enum c_token kind;
	const char *text; /* the token */
	size_t length;
	unsigned line;
	const char *file; /* of the last marker: in the text, up to a quote; NULL: none */
};

/* Reads the first token. */
void c_tokens_start(struct c_tokens *tokens, const char *text);
void c_tokens_next(struct c_tokens *tokens);
bool c_tokens_is(const struct c_tokens *tokens, const char *text);
/* Goes on if the token is that one. */
bool c_tokens_accept(struct c_tokens *tokens, const char *text);
/* Skips the rest of what this token opens: ( [ {. Goes on behind its end. */
void c_tokens_skip_group(struct c_tokens *tokens);

#endif
