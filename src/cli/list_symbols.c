/*
 * list_symbols.c - dyntrace list-symbols TARGET|FILE [GLOB]
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "../control/base/cleanup.h"
#include "../control/sym/debug.h"
#include "../control/sym/demangle.h"
#include "../control/sym/sym.h"
#include "commands.h"
#include "text.h"

#define NEAR_NAMES 3

static struct {
	bool json;
	bool all;
} args;

static const struct option_spec options[] = {
	{ 'a', "all", NULL, "also its prototype, what kind of symbol it is and where its name was found",
	  .flag = &args.all },
	{ 0, "json", NULL, "a JSON array with an object for each function", .flag = &args.json },
	{ 0 },
};

struct listing {
	const char *glob; /* NULL: everything */
	struct strbuf text;
	size_t count; /* functions listed */
	struct debug *debug; /* of the module at work, with -a; NULL: none */
	char near[256]; /* names near the glob, where nothing matched it */
};

static const char *const kind_names[] = {
	[SYMBOL_FUNCTION] = "function",
	[SYMBOL_IFUNC] = "ifunc",
	[SYMBOL_OBJECT] = "object",
};

static const char *const source_names[] = {
	[SOURCE_SYMTAB] = ".symtab",
	[SOURCE_DYNSYM] = ".dynsym",
	[SOURCE_ENTRY] = "entry point",
	[SOURCE_EH_FRAME] = ".eh_frame",
};

static void add_json(struct strbuf *text, const char *key, const char *value)
{
	text_quote_json(text, key, strlen(key));
	text_add(text, ":");
	text_quote_json(text, value, strlen(value));
}

/* "long foo(int number)", from debug information; else the name, readable if it is mangled. */
static void add_prototype(struct listing *list, const struct symbol *symbol, struct strbuf *text)
{
	_cleanup_free_ char *readable = demangle(symbol->name);
	struct debug_function function;

	if (!readable && list->debug && debug_function_at(list->debug, symbol->address, &function) &&
	    function.low == symbol->address && !debug_function_is_assembly(&function))
		debug_print_prototype(&function, text);
	else
		strbuf_printf(text, "%s", readable ? readable : symbol->name);
}

static void list_json(struct listing *list, const char *module, const struct symbol *symbol,
		      uint64_t address)
{
	_cleanup_(strbuf_free) struct strbuf prototype = { 0 };
	struct strbuf *text = &list->text;

	strbuf_printf(text, "%s\n{\"address\":%llu,\"size\":%llu,", list->count ? "," : "[",
		      (unsigned long long)address, (unsigned long long)symbol->size);
	add_json(text, "module", module);
	text_add(text, ",");
	add_json(text, "name", symbol->name);
	if (args.all) {
		text_add(text, ",");
		add_json(text, "kind", kind_names[symbol->kind]);
		text_add(text, ",");
		add_json(text, "source", source_names[symbol->source]);
		add_prototype(list, symbol, &prototype);
		text_add(text, ",");
		add_json(text, "prototype", prototype.text ? prototype.text : "");
	}
	text_add(text, "}");
}

static void list_line(struct listing *list, const char *module, const struct symbol *symbol,
		      uint64_t address)
{
	_cleanup_(strbuf_free) struct strbuf prototype = { 0 };

	strbuf_printf(&list->text, "0x%012llx %7llu  %-20s ", (unsigned long long)address,
		      (unsigned long long)symbol->size, module);
	if (args.all)
		strbuf_printf(&list->text, "%-8s  %-11s  ", kind_names[symbol->kind],
			      source_names[symbol->source]);
	text_add(&list->text, symbol->name);
	if (args.all)
		add_prototype(list, symbol, &prototype);
	if (prototype.text && strcmp(prototype.text, symbol->name) != 0)
		strbuf_printf(&list->text, "  %s", prototype.text);
	text_add(&list->text, "\n");
}

static void note_near(struct listing *list, const struct symtab *symtab)
{
	const char *names[NEAR_NAMES];
	size_t count = symtab_near(symtab, list->glob, names, NEAR_NAMES);

	for (size_t i = 0; i < count && !strpbrk(list->glob, "*?["); i++) {
		size_t used = strlen(list->near);

		snprintf(list->near + used, sizeof(list->near) - used, "%s'%s'", used ? ", " : "",
			 names[i]);
	}
}

/* Every function of one module that the glob matches. */
static struct error *list_symtab(struct listing *list, const char *module,
				 const struct symtab *symtab, uint64_t bias)
{
	size_t before = list->count;

	for (size_t i = 0; i < symtab_count(symtab); i++) {
		const struct symbol *symbol = symtab_get(symtab, i);

		if (symbol->kind == SYMBOL_OBJECT ||
		    (list->glob && fnmatch(list->glob, symbol->name, 0)))
			continue;
		(args.json ? list_json : list_line)(list, module, symbol, symbol->address + bias);
		list->count++;
	}
	if (list->count == before && list->glob && !list->near[0])
		note_near(list, symtab);
	if (!text_flush(&list->text))
		return error_errno(errno, "cannot write the list");
	return NULL;
}

static void symtab_closep(struct symtab **symtab)
{
	if (*symtab)
		symtab_close(*symtab);
}

static struct error *list_file(struct listing *list, const char *path)
{
	_cleanup_(symtab_closep) struct symtab *symtab = NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat))
		return error_errno(errno, "cannot open '%s'", path);
	if (!S_ISREG(stat.st_mode))
		return error_new(ERROR_FAILED, "cannot list '%s': not a regular file", path);

	struct error *error = symtab_open(fd, path, &symtab);
	if (error)
		return error;
	if (args.all)
		error_free(debug_open(fd, path, &list->debug));
	error = list_symtab(list, strrchr(path, '/') ? strrchr(path, '/') + 1 : path, symtab, 0);
	debug_close(take_ptr(&list->debug));
	return error;
}

static void proc_closep(struct proc **proc)
{
	if (*proc)
		proc_close(*proc);
}

/* A library that can't be read (gone, or of another container) doesn't hide the others. */
static struct error *list_modules(struct listing *list, struct proc *proc, struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = modules->items[i];
		struct symtab *symtab;
		_cleanup_error_ struct error *unreadable = module_symtab(proc, module, &symtab);

		if (unreadable && modules->count == 1)
			return take_ptr(&unreadable);
		if (unreadable) {
			cli_note("%s: left out: %s", module->name, error_text(unreadable));
			continue;
		}
		list->debug = NULL;
		if (args.all) /* owned by the module */
			error_free(module_debug(proc, module, &list->debug));
		struct error *error = list_symtab(list, module->name, symtab, module->bias.v);
		if (error)
			return error;
	}
	return NULL;
}

static struct error *list_process(struct listing *list, pid_t pid)
{
	_cleanup_(proc_closep) struct proc *proc = NULL;
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_(modules_free) struct modules modules = { 0 };
	struct error *error = proc_open_plain(pid, &proc);

	if (!error)
		error = maps_read(proc, &maps);
	if (!error)
		error = modules_read(proc, &maps, &modules);
	return error ? error : list_modules(list, proc, &modules);
}

/* A pid, else the name of a process, else a file; a word with a slash can only be a file. */
static struct error *list_target(struct listing *list, const char *target)
{
	struct error *error;
	pid_t pid;

	if (strchr(target, '/'))
		return list_file(list, target);
	error = proc_find(target, &pid);
	if (!error)
		return list_process(list, pid);
	if (error_kind(error) != ERROR_GONE)
		return error;
	error_free(error);
	if (faccessat(AT_FDCWD, target, F_OK, 0))
		return error_new(ERROR_FAILED, "there is no process and no file '%s'", target);
	return list_file(list, target);
}

static struct error *nothing_found(const struct listing *list, const char *target)
{
	if (!list->glob)
		return error_new(ERROR_FAILED, "no function names were found in '%s'", target);
	if (list->near[0])
		return error_new(ERROR_FAILED,
				 "no function of '%s' is called '%s' (near names: %s)", target,
				 list->glob, list->near);
	return error_new(ERROR_FAILED, "no function of '%s' matches '%s'", target, list->glob);
}

static struct error *run(const struct words *words, int *ret_status)
{
	struct listing list = { 0 };

	if (words->count < 1 || words->count > 2)
		return error_new(ERROR_USAGE, "a TARGET or FILE is needed, and at most one GLOB");
	list.glob = words->count > 1 ? words->items[1] : NULL;

	struct error *error = list_target(&list, words->items[0]);
	if (args.json && (list.count || !error))
		fputs(list.count ? "\n]\n" : "[]\n", stdout);
	if (!error && !list.count)
		error = nothing_found(&list, words->items[0]);
	strbuf_free(&list.text);
	return error;
}

const struct command command_list_symbols = {
	.name = "list-symbols",
	.summary = "list the functions of a process or a file: address, size, module, name",
	.usage = "[OPTIONS] TARGET|FILE [GLOB]",
	.details = "TARGET is a pid, or a name: that of a process or of its executable. FILE is a\n"
		   "program or a library: a word with a slash in it, or one that is no pid and no\n"
		   "process's name. The addresses are those in the process's memory, or those in\n"
		   "the file. GLOB (quote it) picks names: * ? [a-z].",
	.example = "dyntrace list-symbols redis-server 'process*'\n"
		   "dyntrace list-symbols /usr/bin/ls main",
	.options = options,
	.run = run,
};
