/*
 * agent_text.h - text that the agent makes, for tests: its own headers forbid what tests need.
 */
#ifndef DYNTRACE_AGENT_TEXT_H
#define DYNTRACE_AGENT_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Give the length of the text. */
size_t agent_text_of_real(uint64_t bits, uint32_t size, char *ret_text, uint32_t room);
size_t agent_text_of_string(const char *bytes, size_t length, char *ret_text, uint32_t room);

#endif
