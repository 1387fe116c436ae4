/*
 * top_terminal.h - the screen of `top`: the terminal's other screen, drawn whole, and single keys.
 *
 * Without a terminal that can do it (a pipe, TERM=dumb) nothing of it is used.
 */
#ifndef DYNTRACE_TOP_TERMINAL_H
#define DYNTRACE_TOP_TERMINAL_H

#include <stdbool.h>

#include "control/base/strbuf.h"

/* First byte of a line: how it looks. */
#define TOP_TITLE '\1'
#define TOP_SELECTED '\2'

enum top_key {
	TOP_NO_KEY = -1,
	TOP_UP = 256,
	TOP_DOWN,
	TOP_PAGE_UP,
	TOP_PAGE_DOWN,
	TOP_ESCAPE,
};

bool top_terminal_is_usable(void);
/* Switches to the other screen, and to keys without echo. */
void top_terminal_begin(void);
/* Makes the terminal as it was. */
void top_terminal_end(void);
/* True: the size has changed since the last call. */
bool top_terminal_size(unsigned *ret_width, unsigned *ret_height);
/* A key that was pressed, as its character or an enum top_key; TOP_NO_KEY: none. */
int top_terminal_key(void);
/* Begins a line that looks like that: TOP_TITLE or TOP_SELECTED. */
void top_terminal_mark(struct strbuf *lines, char look);
/* Draws the lines; what doesn't fit is cut. False: the terminal is gone. */
bool top_terminal_draw(const struct strbuf *lines);

#endif
