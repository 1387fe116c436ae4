#include "api_helper.h"

#include "options/table_text.h"

static bool on;
static struct wire_out out;

void api_helper_begin(void)
{
	on = true;
}

bool api_helper_is_on(void)
{
	return on;
}

struct wire_out *api_helper_begin_item(void)
{
	wire_begin(&out, WIRE_ITEM, 0);
	return &out;
}

/* Ignores write errors: then the reply is missing too, by which the reader notices. */
void api_helper_end_item(void)
{
	wire_end(&out);
	(void)text_flush(&out.bytes);
}

void api_helper_note(const char *text)
{
	wire_begin(&out, WIRE_NOTE, 0);
	wire_text(&out, WIRE_NOTE_TEXT, text);
	api_helper_end_item();
}

void api_helper_reply(const struct error *error)
{
	wire_begin_reply(&out, 0, error);
	api_helper_end_item();
	wire_free(&out);
}
