#include "c_tokens.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(char letter)
{
	return isalnum((unsigned char)letter) || letter == '_' || letter == '$';
}

static void step(struct c_tokens *tokens)
{
	if (*tokens->at)
		tokens->line += *tokens->at++ == '\n';
}

static void skip_comment(struct c_tokens *tokens)
{
	while (*tokens->at && strncmp(tokens->at, "*/", 2) != 0)
		step(tokens);
	step(tokens);
	step(tokens);
}

/* To the end of the line, and of those that continue it. */
static void skip_line(struct c_tokens *tokens)
{
	while (*tokens->at && *tokens->at != '\n') {
		if (*tokens->at == '\\')
			step(tokens);
		step(tokens);
	}
}

/* # 12 "stdio.h" */
static void read_marker(struct c_tokens *tokens)
{
	const char *at = tokens->at + 1;

	at += strspn(at, " \t");
	if (isdigit((unsigned char)*at)) {
		char *end;
		unsigned long line = strtoul(at, &end, 10);

		end += strspn(end, " \t");
		if (*end == '"')
			tokens->file = end + 1;
		skip_line(tokens);
		tokens->line = (unsigned)line - 1; /* the newline counts */
		return;
	}
	skip_line(tokens);
}

static void skip_space(struct c_tokens *tokens)
{
	for (;;) {
		if (isspace((unsigned char)*tokens->at)) {
			step(tokens);
		} else if (strncmp(tokens->at, "/*", 2) == 0) {
			tokens->at += 2;
			skip_comment(tokens);
		} else if (strncmp(tokens->at, "//", 2) == 0) {
			skip_line(tokens);
		} else if (*tokens->at == '#') {
			read_marker(tokens);
		} else {
			return;
		}
	}
}

static void read_string(struct c_tokens *tokens)
{
	char quote = *tokens->at;

	for (step(tokens); *tokens->at && *tokens->at != quote; step(tokens)) {
		if (*tokens->at == '\\')
			step(tokens);
	}
	step(tokens);
}

void c_tokens_next(struct c_tokens *tokens)
{
	skip_space(tokens);
	tokens->text = tokens->at;
	if (!*tokens->at) {
		tokens->kind = C_END;
	} else if (is_name(*tokens->at)) {
		tokens->kind = isdigit((unsigned char)*tokens->at) ? C_NUMBER : C_NAME;
		while (is_name(*tokens->at))
			tokens->at++;
	} else if (*tokens->at == '"' || *tokens->at == '\'') {
		tokens->kind = C_STRING;
		read_string(tokens);
	} else if (strncmp(tokens->at, "...", 3) == 0) {
		tokens->kind = C_DOTS;
		tokens->at += 3;
	} else {
		tokens->kind = C_SIGN;
		tokens->at++;
	}
	tokens->length = (size_t)(tokens->at - tokens->text);
}

void c_tokens_start(struct c_tokens *tokens, const char *text)
{
	*tokens = (struct c_tokens){ .at = text, .line = 1 };
	c_tokens_next(tokens);
}

bool c_tokens_is(const struct c_tokens *tokens, const char *text)
{
	/* Most comparisons end at the first letter. strncmp stops at the end of a shorter text. */
	return *text == *tokens->text && tokens->kind != C_STRING &&
	       !strncmp(tokens->text, text, tokens->length) && !text[tokens->length];
}

bool c_tokens_accept(struct c_tokens *tokens, const char *text)
{
	if (!c_tokens_is(tokens, text))
		return false;
	c_tokens_next(tokens);
	return true;
}

void c_tokens_skip_group(struct c_tokens *tokens)
{
	size_t depth = 0;

	do {
		if (tokens->kind == C_SIGN && strchr("([{", *tokens->text))
			depth++;
		else if (tokens->kind == C_SIGN && strchr(")]}", *tokens->text))
			depth--;
		c_tokens_next(tokens);
	} while (depth && tokens->kind != C_END);
}
