#include "api_helper.h"

#include "options/table_text.h"

static bool on;
static struct wire_out out;

void answer_begin(void)
{
	on = true;
}

bool answer_is_on(void)
{
	return on;
}

struct wire_out *answer_begin_item(void)
{
	wire_begin(&out, WIRE_ITEM, 0);
	return &out;
}

/* What can't be written is missing at the end, too: the reader knows by the reply. */
void answer_end_item(void)
{
	wire_end(&out);
	(void)text_flush(&out.bytes);
}

void answer_note(const char *text)
{
	wire_begin(&out, WIRE_NOTE, 0);
	wire_text(&out, WIRE_NOTE_TEXT, text);
	answer_end_item();
}

void answer_reply(const struct error *error)
{
	wire_begin_reply(&out, 0, error);
	answer_end_item();
	wire_free(&out);
}
