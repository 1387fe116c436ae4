/*
 * debug_print.c - types and prototypes as a programmer writes them.
 */
#include <dwarf.h>
#include <string.h>

#include "control/base/strbuf.h"
#include "debug_state.h"

static const struct {
	int tag;
	const char *word;
} qualifiers[] = {
	{ DW_TAG_const_type, "const" },
	{ DW_TAG_volatile_type, "volatile" },
	{ DW_TAG_restrict_type, "restrict" },
	{ DW_TAG_atomic_type, "_Atomic" },
};

static const struct {
	int tag;
	const char *word;
} keywords[] = {
	{ DW_TAG_structure_type, "struct " },
	{ DW_TAG_union_type, "union " },
	{ DW_TAG_enumeration_type, "enum " },
};

static bool target_of(Dwarf_Die *die, Dwarf_Die *ret_die)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) &&
	       dwarf_formref_die(&attribute, ret_die);
}

static const char *qualifier_of(int tag)
{
	for (size_t i = 0; i < sizeof(qualifiers) / sizeof(qualifiers[0]); i++) {
		if (qualifiers[i].tag == tag)
			return qualifiers[i].word;
	}
	return NULL;
}

/* In C a struct's name needs its keyword; elsewhere it doesn't. */
static const char *keyword_of(Dwarf_Die *die)
{
	Dwarf_Die unit;
	int language = dwarf_diecu(die, &unit, NULL, NULL) ? dwarf_srclang(&unit) : 0;

	if (language != DW_LANG_C && language != DW_LANG_C89 && language != DW_LANG_C99 &&
	    language != DW_LANG_C11)
		return "";
	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
		if (keywords[i].tag == dwarf_tag(die))
			return keywords[i].word;
	}
	return "";
}

static void print_type(Dwarf_Die *die, struct strbuf *buf, unsigned depth);

/* "int (*)(char *)": a pointer to a function. */
static void print_function_pointer(Dwarf_Die *function, struct strbuf *buf, unsigned depth)
{
	Dwarf_Die parameter, type;
	bool any = false;

	if (target_of(function, &type))
		print_type(&type, buf, depth + 1);
	else
		strbuf_printf(buf, "void");
	strbuf_printf(buf, " (*)(");
	if (dwarf_child(function, &parameter) == 0) {
		do {
			if (dwarf_tag(&parameter) != DW_TAG_formal_parameter ||
			    !target_of(&parameter, &type))
				continue;
			strbuf_printf(buf, "%s", any ? ", " : "");
			print_type(&type, buf, depth + 1);
			any = true;
		} while (dwarf_siblingof(&parameter, &parameter) == 0);
	}
	strbuf_printf(buf, "%s)", any ? "" : "void");
}

/* "int (*)[3]": a pointer to an array; "int (*)[]": of a length known at run time only. */
static void print_array_pointer(Dwarf_Die *die, struct strbuf *buf, unsigned depth)
{
	struct type array = { .die = *die }, element;
	uint64_t count = type_count(&array, &element);
	Dwarf_Die target;

	if (target_of(die, &target))
		print_type(&target, buf, depth + 1);
	strbuf_printf(buf, " (*)[");
	if (count)
		strbuf_printf(buf, "%llu", (unsigned long long)count);
	strbuf_printf(buf, "]");
}

static void print_pointer(Dwarf_Die *die, const char *sign, struct strbuf *buf, unsigned depth)
{
	Dwarf_Die target;

	if (!target_of(die, &target)) {
		strbuf_printf(buf, "void %s", sign);
		return;
	}
	if (dwarf_tag(&target) == DW_TAG_subroutine_type) {
		print_function_pointer(&target, buf, depth);
		return;
	}
	if (dwarf_tag(&target) == DW_TAG_array_type && *sign == '*') {
		print_array_pointer(&target, buf, depth);
		return;
	}
	print_type(&target, buf, depth + 1);
	if (buf->length && buf->text[buf->length - 1] != '*')
		strbuf_printf(buf, " ");
	strbuf_printf(buf, "%s", sign);
}

static void print_qualified(Dwarf_Die *die, const char *word, struct strbuf *buf, unsigned depth)
{
	Dwarf_Die target;
	bool any = target_of(die, &target);
	bool behind = any && dwarf_tag(&target) == DW_TAG_pointer_type;

	if (!behind)
		strbuf_printf(buf, "%s ", word);
	if (any)
		print_type(&target, buf, depth + 1);
	else
		strbuf_printf(buf, "void");
	if (behind)
		strbuf_printf(buf, "%s", word);
}

static void print_array(Dwarf_Die *die, struct strbuf *buf, unsigned depth)
{
	struct type array = { .die = *die }, element;
	Dwarf_Die target;

	if (target_of(die, &target))
		print_type(&target, buf, depth + 1);
	strbuf_printf(buf, "[%llu]", (unsigned long long)type_count(&array, &element));
}

static void print_type(Dwarf_Die *die, struct strbuf *buf, unsigned depth)
{
	int tag = dwarf_tag(die);
	const char *word = qualifier_of(tag), *name = debug_name(die);

	if (depth > DEBUG_DEPTH_MAX / 2)
		strbuf_printf(buf, "...");
	else if (word)
		print_qualified(die, word, buf, depth);
	else if (tag == DW_TAG_pointer_type && !name)
		print_pointer(die, "*", buf, depth);
	else if (tag == DW_TAG_reference_type)
		print_pointer(die, "&", buf, depth);
	else if (tag == DW_TAG_rvalue_reference_type)
		print_pointer(die, "&&", buf, depth);
	else if (tag == DW_TAG_array_type && !name)
		print_array(die, buf, depth);
	else
		strbuf_printf(buf, "%s%s", keyword_of(die), name ? name : "{...}");
}

/* "const char *", "struct foo **": as a programmer writes it. */
static void type_print(Dwarf_Die *die, struct strbuf *buf)
{
	Dwarf_Die type;

	if (target_of(die, &type))
		print_type(&type, buf, 0);
	else
		strbuf_printf(buf, "void");
}

static bool takes_more(Dwarf_Die *function)
{
	Dwarf_Die die;

	if (dwarf_child(function, &die) != 0)
		return false;
	do {
		if (dwarf_tag(&die) == DW_TAG_unspecified_parameters)
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

void debug_print_prototype(const struct debug_function *function, struct strbuf *buf)
{
	struct member_walk walk = { .started = false };
	Dwarf_Die die = function->die;
	const char *name = debug_name(&die);
	struct parameter parameter;
	bool any = false;

	type_print(&die, buf);
	if (buf->length && buf->text[buf->length - 1] != '*')
		strbuf_printf(buf, " ");
	strbuf_printf(buf, "%s(", name ? name : "?");
	while (debug_next_parameter(&die, &walk, &parameter)) {
		strbuf_printf(buf, "%s", any ? ", " : "");
		type_print(&parameter.die, buf);
		if (parameter.name)
			strbuf_printf(buf, "%s%s",
				      buf->text[buf->length - 1] == '*' ? "" : " ", parameter.name);
		any = true;
	}
	if (takes_more(&die))
		strbuf_printf(buf, "%s...", any ? ", " : "");
	else if (!any)
		strbuf_printf(buf, "void");
	strbuf_printf(buf, ")");
}
