#include "c_declarations.h"

static void write_type(const struct c_type *type, struct strbuf *text)
{
	unsigned pointers = type->pointers + (type->is_array || type->is_function);
	const char *name = type->is_function	       ? "void" :
			   type->base && type->base->name ? type->base->name :
			   type->tag[0]		       ? type->tag :
							 "void";

	strbuf_printf(text, "%s%s", name, pointers ? " " : "");
	for (unsigned i = 0; i < pointers; i++)
		strbuf_printf(text, "*");
}

/* Behind a star without a space. */
static void write_name(const struct c_type *type, const char *name, struct strbuf *text)
{
	bool has_star = type->pointers || type->is_array || type->is_function;

	strbuf_printf(text, "%s%s", name[0] && !has_star ? " " : "", name);
}

void c_function_write(const struct c_function *function, struct strbuf *text)
{
	write_type(&function->result, text);
	write_name(&function->result, function->name, text);
	strbuf_printf(text, "(");
	for (size_t i = 0; i < function->count; i++) {
		const struct c_parameter *parameter = &function->parameters[i];

		strbuf_printf(text, "%s", i ? ", " : "");
		write_type(&parameter->type, text);
		write_name(&parameter->type, parameter->name, text);
	}
	strbuf_printf(text, "%s);",
		      function->is_variadic ? function->count ? ", ..." : "..." :
		      function->count	    ? "" :
					      "void");
}
