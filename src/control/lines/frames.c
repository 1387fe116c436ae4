#include "frames.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "control/base/cleanup.h"
#include "control/base/quote.h"
#include "control/base/vec.h"
#include "control/dwarf/debug.h"
#include "control/names/name_fit.h"
#include "control/elf/symtab.h"
#include "shared/unwind.h"

/* Parsed from "START END BIAS @SINCE %PROGRAM BUILD-ID PATH": hexadecimal numbers, PROGRAM decimal,
 * "-" for no build id. "@SINCE", a clock, and %PROGRAM are optional. */
struct loaded {
	uint64_t start, end, bias, since;
	unsigned program;
	char build_id[132];
	char *path;
	bool opened;
	struct symtab *symtab; /* NULL: unreadable, or another build id */
	struct debug *debug;
};

/* Parsed from "%PROGRAM PID @SINCE". */
struct running {
	unsigned program, pid;
	uint64_t since;
};

struct frames {
	VEC(struct loaded) files;
	VEC(struct running) processes;
	size_t count; /* of lines added, also those that weren't understood */
};

static bool parse_module(const char *text, struct loaded *ret)
{
	int used = 0, more = 0;

	*ret = (struct loaded){ 0 };
	if (sscanf(text, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %n", &ret->start, &ret->end,
		   &ret->bias, &used) != 3 ||
	    used == 0)
		return false;
	text += used;
	if (sscanf(text, "@%" SCNx64 " %n", &ret->since, &more) == 1)
		text += more;
	more = 0;
	if (sscanf(text, "%%%u %n", &ret->program, &more) == 1)
		text += more;
	used = 0;
	if (sscanf(text, "%131s %n", ret->build_id, &used) != 1 || used == 0)
		return false;
	ret->path = strdup(text + used);
	return ret->path != NULL;
}

struct frames *frames_create(void)
{
	return calloc(1, sizeof(struct frames));
}

size_t frames_count(const struct frames *frames)
{
	return frames->count;
}

void frames_add(struct frames *frames, const char *line)
{
	struct loaded loaded;
	struct running running;

	frames->count++;
	if (sscanf(line, "%%%u %u @%" SCNx64, &running.program, &running.pid, &running.since) == 3)
		vec_push(&frames->processes, running); /* without memory: no names */
	else if (parse_module(line, &loaded) && !vec_push(&frames->files, loaded))
		free(loaded.path);
}

void frames_free(struct frames *frames)
{
	if (!frames)
		return;
	for (size_t i = 0; i < frames->files.count; i++) {
		struct loaded *file = &frames->files.items[i];

		symtab_close(file->symtab);
		debug_close(file->debug);
		free(file->path);
	}
	vec_free(&frames->files);
	vec_free(&frames->processes);
	free(frames);
}

/* The path is the trace's word: opening a device or a pipe could do something. */
static bool is_regular(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

static void open_file(struct loaded *file)
{
	_cleanup_close_ int fd =
		is_regular(file->path) ?
			open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) :
			-1;
	char build_id[sizeof(file->build_id)];

	file->opened = true;
	if (fd < 0)
		return;
	debug_file_build_id(fd, build_id, sizeof(build_id));
	if (strcmp(build_id, file->build_id) != 0)
		return;
	error_free(symtab_open(fd, file->path, &file->symtab));
	error_free(debug_open(fd, file->path, &file->debug));
}

/* The program that the event's process ran. */
static unsigned find_program(const struct frames *frames, const struct frames_event *event)
{
	const struct running *found = NULL;

	for (size_t i = 0; i < frames->processes.count; i++) {
		const struct running *running = &frames->processes.items[i];

		if (running->pid == event->pid && running->since <= event->clock &&
		    (!found || running->since >= found->since))
			found = running;
	}
	return found ? found->program : 0;
}

/* The file most recently loaded at the address by that clock; NULL: none. */
static struct loaded *find_file(struct frames *frames, uint64_t address,
				const struct frames_event *event)
{
	unsigned program = find_program(frames, event);
	struct loaded *found = NULL;

	for (size_t i = 0; i < frames->files.count; i++) {
		struct loaded *file = &frames->files.items[i];

		if (address >= file->start && address < file->end && file->program == program &&
		    file->since <= event->clock && (!found || file->since >= found->since))
			found = file;
	}
	if (found && !found->opened)
		open_file(found);
	return found;
}

static void print_name(const char *name, struct strbuf *text)
{
	_cleanup_free_ char *readable = name_fit_short(name);

	quote_format(text, "%s", readable ? readable : name);
}

void frames_print(struct frames *frames, uint64_t address, const struct frames_event *event,
		  bool is_return, struct strbuf *text)
{
	struct loaded *file = frames ? find_file(frames, address, event) : NULL;
	struct debug_function function;
	const struct symbol *symbol;
	const char *source;
	uint64_t at;
	int line;

	if (address == DT_FRAME_UNKNOWN) {
		quote_format(text, "(callers unknown)");
		return;
	}
	if (!file || !file->symtab) {
		quote_format(text, "0x%" PRIx64, address);
		return;
	}
	at = address - file->bias;
	symbol = symtab_at(file->symtab, at - is_return);
	if (!symbol && file->debug && debug_function_at(file->debug, at - is_return, &function) &&
	    debug_name(&function.die)) {
		quote_format(text, "%s+0x%" PRIx64, debug_name(&function.die), at - function.low);
	} else if (symbol) {
		print_name(symbol->name, text);
		quote_format(text, "+0x%" PRIx64, at - symbol->address);
	} else {
		const char *slash = strrchr(file->path, '/');

		quote_format(text, "%s+0x%" PRIx64, slash ? slash + 1 : file->path, at);
	}
	if (file->debug && debug_line_at(file->debug, at - is_return, &source, &line)) {
		const char *slash = strrchr(source, '/');

		quote_format(text, " (%s:%d)", slash ? slash + 1 : source, line);
	}
}
