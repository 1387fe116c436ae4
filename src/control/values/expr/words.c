/* words.c - names and signs of an expression. */
#include <ctype.h>
#include <string.h>

#include "operand.h"

void parser_skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

bool parser_accept(struct parser *p, const char *sign)
{
	size_t length = strlen(sign);

	parser_skip_space(p);
	if (strncmp(p->at, sign, length) != 0)
		return false;
	p->at += length;
	return true;
}

bool parser_is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

bool parser_take_name(struct parser *p, char *name)
{
	size_t length = 0;

	parser_skip_space(p);
	if (!parser_is_name(*p->at) || isdigit((unsigned char)*p->at))
		return false;
	while (parser_is_name(*p->at) || (p->at[0] == ':' && p->at[1] == ':')) {
		size_t step = *p->at == ':' ? 2 : 1;

		if (length + step >= NAME_MAX_LENGTH)
			return false;
		memcpy(name + length, p->at, step);
		length += step;
		p->at += step;
	}
	name[length] = '\0';
	return true;
}

void parser_take_path(struct parser *p, char *name)
{
	size_t length = strlen(name);

	for (;;) {
		size_t step = 0;

		if (p->at[0] == '.' && parser_is_name(p->at[1]) &&
		    !isdigit((unsigned char)p->at[1])) {
			step = 1;
			while (parser_is_name(p->at[step]))
				step++;
		} else if (p->at[0] == '[') {
			step = strspn(p->at + 1, "0123456789") + 1;
			step = step > 1 && p->at[step] == ']' ? step + 1 : 0;
		}
		if (!step || length + step >= NAME_MAX_LENGTH)
			return;
		memcpy(name + length, p->at, step);
		length += step;
		name[length] = '\0';
		p->at += step;
	}
}
