#include "agent_text.h"

#include "target/lines/lines.h"

size_t agent_text_of_real(uint64_t bits, uint32_t size, char *ret_text, uint32_t room)
{
	struct hit_text text = { .bytes = ret_text, .room = room };

	hit_real(&text, bits, size);
	return text.length;
}

size_t agent_text_of_string(const char *bytes, size_t length, char *ret_text, uint32_t room)
{
	struct hit_text text = { .bytes = ret_text, .room = room };

	hit_text_quoted(&text, bytes, length);
	return text.length;
}
