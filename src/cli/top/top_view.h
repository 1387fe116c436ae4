/*
 * top_view.h - what `top` shows: a table of rows, one row closely, or the keys that it knows; as
 * lines of text, for a screen (top_terminal.h) or for a pipe.
 */
#ifndef DYNTRACE_TOP_VIEW_H
#define DYNTRACE_TOP_VIEW_H

#include "top_rows.h"

enum top_page { TOP_TABLE, TOP_DETAIL, TOP_HELP };

struct top_view {
	struct top_rows rows;
	const char *title; /* of the target */
	const char *key_title; /* of the last column: "function", or the keys */
	bool by_key;
	int sort; /* enum calls_sort; CALLS_BY_DEFAULT: by total */
	enum top_page page;
	bool is_paused, is_typing; /* a text to find */
	bool has_blocks; /* the terminal has Unicode */
	char find[64]; /* rows with this text; "": all */
	size_t selected, first; /* of the sorted rows: the selected one, the top one */
	char *name; /* of the selected row; owned */
	char *callers; /* name of the tracepoint that counts the callers of the detail; owned */
	uint64_t begun_ns;
	unsigned width; /* of the screen; 0: no limit */
};

/* Appends the lines of a screen of that size. */
void top_view_draw(struct top_view *view, struct session *session, unsigned width,
		   unsigned height, struct strbuf *lines);
/* Appends a table of up to `most` rows, for a pipe. */
void top_view_print(struct top_view *view, unsigned most, struct strbuf *lines);
/* Does what the key says. False: the user wants to quit. */
bool top_view_key(struct top_view *view, struct session *session, int key, unsigned height);
void top_view_free(struct top_view *view);

#endif
