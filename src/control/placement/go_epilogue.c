#include "go_epilogue.h"

#include <string.h>

#define RET 0xc3
#define POP_RBP 0x5d

static bool begins(const struct body *body, const struct body_insn *insn, const char *bytes,
		   size_t count)
{
	return insn->length > count &&
	       !memcmp(body->text->bytes + (insn->at - body->text->address), bytes, count);
}

static uint8_t only_byte(const struct body *body, const struct body_insn *insn)
{
	return insn->length == 1 ? body->text->bytes[insn->at - body->text->address] : 0;
}

/* mov N(%rsp), %rbp */
static bool loads_rbp(const struct body *body, const struct body_insn *insn)
{
	return begins(body, insn, "\x48\x8b\x6c\x24", 4) ||
	       begins(body, insn, "\x48\x8b\xac\x24", 4);
}

/* add $M, %rsp; also written as sub $-128, %rsp */
static bool leaves_frame(const struct body *body, const struct body_insn *insn)
{
	return begins(body, insn, "\x48\x83\xc4", 3) || begins(body, insn, "\x48\x81\xc4", 3) ||
	       begins(body, insn, "\x48\x83\xec\x80", 3);
}

bool go_epilogue_goes_on(const struct body *body, const struct body_insn *insn)
{
	size_t count = body->insns.count;
	const struct body_insn *before = count > 0 ? &body->insns.items[count - 1] : NULL;
	const struct body_insn *first = count > 1 ? before - 1 : NULL;

	if (!before)
		return false;
	if (leaves_frame(body, insn))
		return loads_rbp(body, before);
	if (only_byte(body, insn) == POP_RBP)
		return leaves_frame(body, before);
	if (only_byte(body, insn) != RET)
		return false;
	return leaves_frame(body, before) || (first && only_byte(body, before) == POP_RBP &&
					      leaves_frame(body, first));
}
