/*
 * cmd_list_symbols.c - dyntrace list-symbols TARGET|FILE [GLOB]: functions.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "api_helper.h"
#include "control/base/cleanup.h"
#include "control/modules/unnamed_functions.h"
#include "control/names/clone_name.h"
#include "control/names/demangle.h"
#include "control/names/loc_parse.h"
#include "control/names/name_fit.h"
#include "control/names/spell.h"
#include "options/commands.h"
#include "options/table_text.h"
#include "target_arg.h"

static struct {
	bool json;
	bool all;
} args;

static const struct option_spec options[] = {
	{ 'a', "all", NULL,
	  "also each function's prototype, the symbol's kind and the source of its name",
	  .flag = &args.all },
	{ 0, "json", NULL, "a JSON array with one object per function", .flag = &args.json },
	{ 0 },
};

struct listing {
	const char *glob; /* NULL: all functions */
	bool is_glob;
	const char *module; /* NULL: all */
	struct strbuf text;
	size_t count; /* functions listed */
	struct debug *debug; /* of the current module; NULL: none */
	void (*add)(struct listing *list, const char *module, const struct symbol *symbol,
		    uint64_t address);
	char near[256]; /* names near the glob, if nothing matched it */
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
	[SOURCE_DEBUG] = "debug file",
	[SOURCE_DEBUGDATA] = "debugdata",
	[SOURCE_PLT] = ".plt",
	[SOURCE_GO] = ".gopclntab",
};

/* Appends "long foo(int number)" from debug information, or else the demangled name. */
static void add_prototype(struct listing *list, const struct symbol *symbol, struct strbuf *text)
{
	_cleanup_free_ char *readable = demangle(symbol->name);
	struct debug_function function;

	if (!readable && list->debug &&
	    debug_function_at(list->debug, symbol->address, &function) &&
	    function.low == symbol->address && !debug_function_is_assembly(&function))
		debug_print_prototype(&function, text);
	else
		quote_format(text, "%s", readable ? readable : symbol->name);
}

static void list_json(struct listing *list, const char *module, const struct symbol *symbol,
		      uint64_t address)
{
	_cleanup_(strbuf_free) struct strbuf prototype = { 0 };
	struct strbuf *text = &list->text;

	quote_format(text, "%s\n{\"address\":%llu,\"size\":%llu,", list->count ? "," : "[",
		      (unsigned long long)address, (unsigned long long)symbol->size);
	text_add_json(text, "module", module);
	text_add(text, ",");
	text_add_json(text, "name", symbol->name);
	if (args.all) {
		text_add(text, ",");
		text_add_json(text, "kind", kind_names[symbol->kind]);
		text_add(text, ",");
		text_add_json(text, "source", source_names[symbol->source]);
		add_prototype(list, symbol, &prototype);
		text_add(text, ",");
		text_add_json(text, "prototype", prototype.text ? prototype.text : "");
	}
	text_add(text, "}");
}

static void list_line(struct listing *list, const char *module, const struct symbol *symbol,
		      uint64_t address)
{
	_cleanup_(strbuf_free) struct strbuf prototype = { 0 };
	_cleanup_free_ char *readable = args.all ? NULL : name_fit_readable(symbol->name);

	if (!list->count)
		quote_format(&list->text, "%-14s %7s  %-20s %s\n", "ADDRESS", "SIZE", "MODULE",
			     args.all ? "KIND      SOURCE       NAME  PROTOTYPE" : "NAME");
	quote_format(&list->text, "0x%012llx %7llu  %-20s ", (unsigned long long)address,
		      (unsigned long long)symbol->size, module);
	if (args.all)
		quote_format(&list->text, "%-8s  %-11s  ", kind_names[symbol->kind],
			      source_names[symbol->source]);
	text_foreign(&list->text, readable ? readable : symbol->name);
	if (args.all)
		add_prototype(list, symbol, &prototype);
	if (prototype.text && strcmp(prototype.text, symbol->name) != 0)
		quote_format(&list->text, "  %s", prototype.text);
	text_add(&list->text, "\n");
}

static void list_item(struct listing *list, const char *module, const struct symbol *symbol,
		      uint64_t address)
{
	_cleanup_(strbuf_free) struct strbuf prototype = { 0 };
	struct wire_out *out = api_helper_begin_item();

	wire_number(out, WIRE_ADDRESS, address);
	wire_number(out, WIRE_BYTES, symbol->size);
	wire_text(out, WIRE_MODULE, module);
	wire_text(out, WIRE_NAME, symbol->name);
	wire_text(out, WIRE_SYMBOL_KIND, kind_names[symbol->kind]);
	wire_text(out, WIRE_SOURCE, source_names[symbol->source]);
	if (args.all)
		add_prototype(list, symbol, &prototype);
	wire_text(out, WIRE_PROTOTYPE, prototype.text);
	api_helper_end_item();
}

static void note_near(struct listing *list, const struct symtab *symtab)
{
	struct spell_near near = { .count = 0 };

	spell_offer_symbols(&near, list->glob, symtab);
	for (size_t i = 0; i < near.count && !list->is_glob; i++) {
		size_t used = strlen(list->near);

		snprintf(list->near + used, sizeof(list->near) - used, "%s'%s'", used ? ", " : "",
			 near.names[i]);
	}
}

/* Matches the glob or name against the symbol's name and its demangled form, as trace does. */
static bool is_wanted(const struct symbol *symbol, const struct listing *list)
{
	_cleanup_free_ char *name = NULL;

	if (symbol->kind == SYMBOL_OBJECT)
		return false;
	if (!list->glob || !strcmp(symbol->name, list->glob))
		return true;
	if (symbol->source == SOURCE_PLT && !strstr(list->glob, "@plt"))
		return false;
	if (list->is_glob)
		return (name = name_fit_glob(symbol->name, list->glob)) != NULL;
	if (!demangle_is_mangled(symbol->name) ||
	    (clone_suffix_is_piece(symbol->name + clone_name_length(symbol->name)) &&
	     !name_fit_wants_pieces(list->glob)))
		return false;
	name = name_fit_readable(symbol->name);
	if (name && name_fit_wants_pieces(list->glob)) {
		_cleanup_free_ char *shorter = demangle_short(name);

		return !strcmp(name, list->glob) || (shorter && !strcmp(shorter, list->glob));
	}
	return name && demangle_fits(name, list->glob, false);
}

/* Lists one module's functions that match the glob. */
static struct error *list_module(void *context, const struct target_arg_module *module)
{
	const struct symtab *symtab = module->symtab;
	struct listing *list = context;
	size_t before = list->count;

	if (list->module && !module_name_fits(module->name, list->module) &&
	    !(module->soname && module_name_fits(module->soname, list->module)))
		return NULL;
	list->debug = module->debug;

	_cleanup_(unnamed_functions_free) struct unnamed_functions hidden = { 0 };
	struct error *error = unnamed_functions_read(symtab, module->debug, &hidden);
	if (error)
		return error;
	for (size_t i = 0, j = 0; i < symtab_count(symtab) || j < hidden.count;) {
		const struct symbol *symbol =
			i < symtab_count(symtab) ? symtab_get(symtab, i) : NULL;

		if (j < hidden.count && (!symbol || hidden.items[j].address < symbol->address)) {
			symbol = &hidden.items[j++];
		} else {
			i++;
		}
		if (!is_wanted(symbol, list))
			continue;
		list->add(list, module->name, symbol, symbol->address + module->bias);
		list->count++;
	}
	if (list->count == before && list->glob && !list->near[0])
		note_near(list, symtab);
	if (!text_flush(&list->text))
		return error_errno(errno, "cannot write the list");
	return NULL;
}

static struct error *nothing_found(const struct listing *list, const char *target)
{
	if (!list->glob)
		return error_new(ERROR_FAILED, "'%s' has no function names", target);
	if (list->near[0])
		return error_new(ERROR_FAILED, "no function of '%s' is called '%s' (similar: %s)",
				 target, list->glob, list->near);
	return error_new(ERROR_FAILED, "no function of '%s' matches '%s'", target, list->glob);
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_(location_clear) struct location wanted = { 0 };
	struct listing list = { 0 };

	if (words->count < 1 || words->count > 2)
		return error_new(ERROR_USAGE, "give one TARGET or FILE, and at most one GLOB");
	struct error *wrong = words->count > 1 ? location_parse(words->items[1], &wanted) : NULL;
	if (!wrong && words->count > 1 && (!wanted.symbol || wanted.number))
		wrong = error_new(ERROR_USAGE, "'%s' is not the name of a function, or a glob",
				  words->items[1]);
	if (wrong)
		return wrong;
	list.glob = wanted.symbol;
	list.is_glob = wanted.is_glob;
	list.module = wanted.module ? wanted.module : wanted.provider; /* libc:malloc */
	list.add = api_helper_is_on() ? list_item : args.json ? list_json : list_line;

	struct error *error =
		target_arg_each(words->items[0], args.all ? TARGET_ARG_TYPES : TARGET_ARG_NAMES,
				list_module, &list);
	if (args.json && (list.count || !error))
		cli_print(list.count ? "\n]\n" : "[]\n");
	if (!error && !list.count)
		error = nothing_found(&list, words->items[0]);
	strbuf_free(&list.text);
	return error;
}

const struct command command_list_symbols = {
	.name = "list-symbols",
	.summary = "list the functions of a process or a file: address, size, module, name",
	.usage = "[OPTIONS] TARGET|FILE [GLOB]",
	.details =
		"TARGET is a pid, or the name of a process or of its executable. FILE is a program or a\n"
		"library: a word with a slash, or one that names no process. Addresses are those in the\n"
		"process's memory, or in the file. GLOB (quote it) selects functions by name, as\n"
		"trace --function does: * ? [a-z], NAME@MODULE; C++ and Rust names match in mangled and\n"
		"readable form. Names are shown in readable form, with -a also as in the file.",
	.example = "dyntrace list-symbols redis-server 'process*'\n"
		   "dyntrace list-symbols redis-server 'mem*@libc*'\n"
		   "dyntrace list-symbols /usr/bin/ls main",
	.options = options,
	.run = run,
};
