/*
 * By data: OCaml's frame table has one pointer per call from OCaml code. Data of plain C has
 * pointers to functions and to labels (jump tables, computed goto); few of these happen to follow a
 * call. So the file has such a table if its data names the return addresses of most calls in the
 * functions of which it names any. Only these functions are meant: the C functions of such a
 * runtime keep their exits.
 *
 * By name: tables may hold distances instead of pointers.
 */
#include "control/exits/check/return_tables.h"

#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/code/decode.h"

#define CALL_MAX 7u /* bytes of a call */
#define PIECE 4096u /* of text, read at once */
#define NAMED_MIN 8u /* return addresses in data: fewer are chance */
#define PADDING 64u /* between two functions */

enum extent {
	ALL, /* every function of the file */
	WITHOUT_FDE, /* text that unwind tables don't cover */
	OCAML, /* functions with names of OCaml's units, camlUnit... */
	SECTION, /* the section that tells the runtime */
};

static const struct {
	const char *runtime, *symbol, *section;
	enum extent extent;
} runtimes[] = {
	{ "OCaml", "caml_call_gc", NULL, OCAML },
	{ ".NET", NULL, "__managedcode", SECTION },
	{ ".NET", "DotNetRuntimeDebugHeader", NULL, ALL },
	{ "Dart", "_kDartIsolateSnapshotInstructions", NULL, ALL },
	{ "GraalVM", "graal_create_isolate", NULL, ALL },
	{ "GraalVM", NULL, ".svm_heap", ALL },
	{ "Mono", "mono_aot_file_info", NULL, ALL },
	{ "LLVM stack maps", NULL, ".llvm_stackmaps", ALL },
};

/* Names of compilers that make code at run time. */
static const char *const compilers[] = {
	"luaJIT_setmode", /* LuaJIT */
	"JNI_CreateJavaVM", /* HotSpot, OpenJ9 */
	"mono_jit_init", /* Mono */
};

struct search {
	const struct symtab *symtab;
	struct ranges *code; /* the result */
	VEC(uint64_t) named; /* addresses behind a call that data names, sorted */
	struct ranges functions; /* those around them */
	size_t calls, named_calls; /* in these functions */
	uint64_t covered_to;
	bool failed;
};

static bool add(struct search *search, uint64_t start, uint64_t end)
{
	struct range *last = search->code->count ? vec_last(search->code) : NULL;

	if (last && start >= last->start && start <= last->end) {
		last->end = end > last->end ? end : last->end;
		return true;
	}
	search->failed |= !vec_push(search->code, (struct range){ start, end });
	return !search->failed;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* caml_call_gc and others enter and leave OCaml code; their return addresses are in its table. */
static bool is_ocaml(const char *name)
{
	static const char *const assembly[] = { "caml_call_", "caml_c_call", "caml_alloc",
						"caml_start_program", "caml_callback",
						"caml_raise_ex", "caml_perform", "caml_resume",
						"caml_runstack", "caml_reperform" };

	if (strncmp(name, "caml", 4) != 0)
		return false;
	for (size_t i = 0; i < sizeof(assembly) / sizeof(assembly[0]); i++) {
		if (!strncmp(name, assembly[i], strlen(assembly[i])))
			return true;
	}
	return name[4] >= 'A' && name[4] <= 'Z';
}

static void add_ocaml(struct search *search)
{
	for (size_t i = 0; i < symtab_count(search->symtab); i++) {
		const struct symbol *symbol = symtab_get(search->symtab, i);

		if (symbol->kind == SYMBOL_FUNCTION && is_ocaml(symbol->name))
			add(search, symbol->address, symbol->address + symbol->size);
	}
}

static void add_all(void *context, uint64_t start, uint64_t end)
{
	add(context, start, end);
}

/* The text between two covered stretches. */
static void add_gap(void *context, uint64_t start, uint64_t end)
{
	struct search *search = context;

	if (start > search->covered_to)
		add(search, search->covered_to, start);
	search->covered_to = end;
}

static void add_extent(struct search *search, enum extent extent, const struct range *section)
{
	switch (extent) {
	case SECTION:
		add(search, section->start, section->end);
		break;
	case WITHOUT_FDE:
		search->covered_to = symtab_low(search->symtab);
		symtab_each_unwind_covered(search->symtab, PADDING, add_gap, search);
		add_gap(search, symtab_high(search->symtab), 0);
		break;
	case OCAML:
		add_ocaml(search);
		break;
	case ALL:
		break;
	}
	if (!search->code->count)
		symtab_each_unwind_covered(search->symtab, UINT64_MAX, add_all, search);
}

/* The runtime that a name in the file tells; `code` still empty gets its code. NULL: none. */
static const char *find_by_name(struct search *search)
{
	bool found = search->code->count;

	if (symtab_is_go(search->symtab)) {
		add_extent(search, WITHOUT_FDE, NULL);
		return "Go";
	}
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++) {
		struct range section = { 0 };

		if (runtimes[i].symbol ? !symtab_find(search->symtab, runtimes[i].symbol) :
					 !symtab_section(search->symtab, runtimes[i].section,
							 &section.start, &section.end))
			continue;
		if (!found)
			add_extent(search, runtimes[i].extent, &section);
		return runtimes[i].runtime;
	}
	return found ? RUNTIME_OF_TABLE : NULL;
}

static bool makes_code(const struct symtab *symtab)
{
	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		if (symtab_find(symtab, compilers[i]))
			return true;
	}
	return false;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Length of the operand bytes of `call r/m64`, from its ModRM byte on. */
static size_t operand_length(const uint8_t *modrm)
{
	uint8_t mode = modrm[0] >> 6, rm = modrm[0] & 7;
	size_t length = 1 + (mode != 3 && rm == 4);

	if (mode == 1)
		return length + 1;
	if (mode == 2 || (mode == 0 && rm == 5) ||
	    (mode == 0 && rm == 4 && (modrm[1] & 7) == 5))
		return length + 4;
	return length;
}

/* Could a call end there? */
static bool may_end_call(const uint8_t *end)
{
	if (end[-5] == 0xe8)
		return true;
	for (size_t length = 2; length <= CALL_MAX; length++) {
		const uint8_t *code = end - length;

		if (code[0] == 0xff && (code[1] >> 3 & 7) == 2 &&
		    (length > 2 || code[1] >> 6 == 3 || (code[1] & 7) != 4) &&
		    1 + operand_length(code + 1) == length)
			return true;
	}
	return false;
}

static void note_pointer(void *context, uint64_t address)
{
	struct search *search = context;

	search->failed |= !vec_push(&search->named, address);
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts the addresses, and keeps those behind a call. Reads the text piece by piece, because the
 * symtab would keep the text of all libraries. */
static void keep_return_addresses(struct search *search)
{
	uint8_t bytes[PIECE];
	uint64_t from = 0, start, end;
	size_t size = 0, kept = 0;

	if (search->named.count)
		qsort(search->named.items, search->named.count, sizeof(*search->named.items),
		      compare_addresses);
	for (size_t i = 0; i < search->named.count; i++) {
		uint64_t address = search->named.items[i];

		if (address < CALL_MAX)
			continue;
		if (address - from > size || !size) {
			from = address - CALL_MAX;
			size = symtab_peek(search->symtab, from, bytes, sizeof(bytes));
		}
		if (address - from <= size && may_end_call(bytes + (address - from)) &&
		    symtab_fde(search->symtab, address - 1, &start, &end) && address != end)
			search->named.items[kept++] = address;
	}
	search->named.count = kept;
}

static bool is_named(const struct search *search, uint64_t address)
{
	return bsearch(&address, search->named.items, search->named.count, sizeof(address),
		       compare_addresses) != NULL;
}

/* Counts the calls of a function, and those whose return addresses data names. */
static size_t count_calls(const struct search *search, uint64_t start, uint64_t end,
			  size_t *ret_named)
{
	const struct text_range *text = symtab_text(search->symtab, start);
	size_t calls = 0;
	struct insn insn;

	*ret_named = 0;
	if (!text || end - text->address > text->size)
		return 0;
	for (uint64_t at = start; at < end; at += insn.length) {
		if (!decode_quick(text->bytes + (at - text->address), end - at, taddr_of(at),
				  &insn))
			break;
		if (insn.flow != FLOW_CALL && insn.flow != FLOW_CALL_INDIRECT)
			continue;
		calls++;
		*ret_named += is_named(search, at + insn.length);
	}
	return calls;
}

/* Do all functions between two of the search make no call? They belong to the same code then. */
static bool only_leaves(const struct search *search, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t start, end;
		size_t named;

		if (!symtab_fde(search->symtab, from, &start, &end)) {
			from = (from | 15) + 1;
			continue;
		}
		if (count_calls(search, start, end, &named))
			return false;
		from = end;
	}
	return true;
}

static void judge_functions(struct search *search)
{
	for (size_t i = 0; i < search->named.count; i++) {
		uint64_t address = search->named.items[i] - 1, start, end;
		struct range *last =
			search->functions.count ? vec_last(&search->functions) : NULL;
		size_t named;

		if ((last && address < last->end) ||
		    !symtab_fde(search->symtab, address, &start, &end))
			continue;
		size_t calls = count_calls(search, start, end, &named);
		if (!named)
			continue;
		search->calls += calls;
		search->named_calls += named;
		search->failed |= !vec_push(&search->functions, (struct range){ start, end });
	}
}

static void find_by_data(struct search *search)
{
	symtab_each_pointer(search->symtab, note_pointer, search);
	keep_return_addresses(search);
	if (search->named.count < NAMED_MIN)
		return;
	judge_functions(search);
	if (search->named_calls < NAMED_MIN || search->named_calls * 2 < search->calls)
		return;
	for (size_t i = 0; i < search->functions.count; i++) {
		const struct range *function = &search->functions.items[i];
		uint64_t start = function->start;

		if (search->code->count &&
		    only_leaves(search, vec_last(search->code)->end, start))
			start = vec_last(search->code)->end;
		add(search, start, function->end);
	}
}

struct error *return_tables_find(const struct symtab *symtab, struct return_tables *ret_tables)
{
	struct return_tables tables = { 0 };
	struct search search = { .symtab = symtab, .code = &tables.code };

	find_by_data(&search);
	tables.runtime = find_by_name(&search);
	tables.makes_code = makes_code(symtab);
	vec_free(&search.named);
	vec_free(&search.functions);
	if (search.failed) {
		return_tables_free(&tables);
		return error_new(ERROR_FAILED, "out of memory");
	}
	ranges_sort(&tables.code);
	*ret_tables = tables;
	return NULL;
}

void return_tables_free(struct return_tables *tables)
{
	vec_free(&tables->code);
}
