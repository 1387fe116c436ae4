/*
 * debug_line.c - source lines: from a line to addresses, and back.
 */
#include <dwarf.h>
#include <string.h>

#include "debug_state.h"

/* "dir/foo.c" fits "/src/dir/foo.c"; "foo.c" fits any file of that name. */
static bool file_fits(const char *path, const char *wanted)
{
	size_t length = strlen(path), tail = strlen(wanted);

	return length >= tail && strcmp(path + length - tail, wanted) == 0 &&
	       (length == tail || path[length - tail - 1] == '/');
}

struct search {
	struct debug *debug;
	const char *file;
	int line, best; /* best: the line found so far, `line` or a later one */
	bool file_found;
	struct debug_addresses *to;
	bool failed;
};

/* Keeps one address per function: the lowest. */
static void keep(struct search *search, uint64_t address)
{
	struct debug_function function = { .low = 0 };
	uint64_t low =
		debug_function_at(search->debug, address, &function) ? function.low : address;

	for (size_t i = 0; i < search->to->count; i++) {
		struct debug_address *found = &search->to->items[i];

		if (found->function != low)
			continue;
		if (address < found->address)
			found->address = address;
		return;
	}
	if (!vec_push(search->to, (struct debug_address){ .address = address, .function = low }))
		search->failed = true;
}

static void look_at(struct search *search, Dwarf_Line *row)
{
	const char *path = dwarf_linesrc(row, NULL, NULL);
	bool is_statement = false, is_end = false;
	Dwarf_Addr address;
	int line;

	if (!path || !file_fits(path, search->file))
		return;
	search->file_found = true;
	if (dwarf_lineno(row, &line) != 0 || line < search->line || line > search->best ||
	    dwarf_linebeginstatement(row, &is_statement) != 0 || !is_statement ||
	    dwarf_lineendsequence(row, &is_end) != 0 || is_end ||
	    dwarf_lineaddr(row, &address) != 0 || address == 0)
		return;
	if (line < search->best) {
		search->best = line;
		search->to->count = 0;
	}
	keep(search, address);
}

bool debug_find_line(struct debug *debug, const char *file, int line,
		     struct debug_addresses *ret_addresses, int *ret_line)
{
	struct search search = { debug, file, line, INT32_MAX, false, ret_addresses, false };

	*ret_addresses = (struct debug_addresses){ 0 };
	if (!debug_index(debug))
		return false;
	debug_need_lines(debug);
	for (size_t i = 0; i < debug->units.count; i++) {
		Dwarf_Lines *rows;
		size_t count;

		if (dwarf_getsrclines(&debug->units.items[i].lines, &rows, &count) != 0)
			continue;
		for (size_t j = 0; j < count; j++)
			look_at(&search, dwarf_onesrcline(rows, j));
	}
	*ret_line = search.best;
	return search.file_found;
}

bool debug_line_at(struct debug *debug, uint64_t address, const char **ret_file, int *ret_line)
{
	struct debug_unit *unit = debug_unit_at(debug, address);
	Dwarf_Line *row;

	debug_need_lines(debug);
	row = unit ? dwarf_getsrc_die(&unit->lines, address) : NULL;
	if (!row || dwarf_lineno(row, ret_line) != 0)
		return false;
	*ret_file = dwarf_linesrc(row, NULL, NULL);
	return *ret_file != NULL;
}
