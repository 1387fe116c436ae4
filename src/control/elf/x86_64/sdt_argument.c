/*
 * sdt_argument.c - the arguments of static markers, as compilers write them:
 *
 *	[SIZE[f]@]OPERAND	SIZE in bytes, negative: signed; f: floating point
 *	OPERAND:
 *		$5  $-1  $sym+4			a constant
 *		%edi  %ah  %xmm0		a register
 *		-16(%rbp)  (%rax,%rbx,4)	memory
 *		4+sym(%rip)  sym(,%rax,8)	... at a symbol
 *		%fs:16				... of the thread
 *
 * Blanks separate arguments. SIZE governs: "8@%eax" is all of rax, since some compilers name a
 * register by the wrong one of its names.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/elf/sdt.h"

#define SYMBOL_MAX 256

struct parser {
	const char *at;
	const struct sdt_symbols *symbols;
	struct sdt_argument argument;
};

/* By hardware number: names of 64, 32, 16 and 8 bits. */
static const char *const registers[16][4] = {
	{ "rax", "eax", "ax", "al" },	    { "rcx", "ecx", "cx", "cl" },
	{ "rdx", "edx", "dx", "dl" },	    { "rbx", "ebx", "bx", "bl" },
	{ "rsp", "esp", "sp", "spl" },	    { "rbp", "ebp", "bp", "bpl" },
	{ "rsi", "esi", "si", "sil" },	    { "rdi", "edi", "di", "dil" },
	{ "r8", "r8d", "r8w", "r8b" },	    { "r9", "r9d", "r9w", "r9b" },
	{ "r10", "r10d", "r10w", "r10b" },  { "r11", "r11d", "r11w", "r11b" },
	{ "r12", "r12d", "r12w", "r12b" },  { "r13", "r13d", "r13w", "r13b" },
	{ "r14", "r14d", "r14w", "r14b" },  { "r15", "r15d", "r15w", "r15b" },
};
static const char *const high_bytes[] = { "ah", "ch", "dh", "bh" }; /* of registers 0 to 3 */

#define REG_RIP 16

static bool take(struct parser *p, char c)
{
	if (*p->at != c)
		return false;
	p->at++;
	return true;
}

/* The letters and digits after a '%'. */
static bool take_word(struct parser *p, char word[8])
{
	size_t length = 0;

	if (!take(p, '%'))
		return false;
	while (isalnum((unsigned char)*p->at) && length < 7)
		word[length++] = *p->at++;
	word[length] = '\0';
	return length > 0 && !isalnum((unsigned char)*p->at);
}

/* A general register; *ret_shift: the byte that the name means. */
static bool find_register(const char *word, uint8_t *ret_reg, uint8_t *ret_shift)
{
	*ret_shift = 0;
	for (uint8_t reg = 0; reg < 16; reg++) {
		for (size_t width = 0; width < 4; width++) {
			*ret_reg = reg;
			if (strcmp(word, registers[reg][width]) == 0)
				return true;
		}
	}
	for (uint8_t reg = 0; reg < 4; reg++) {
		*ret_reg = reg;
		*ret_shift = 1;
		if (strcmp(word, high_bytes[reg]) == 0)
			return true;
	}
	return false;
}

static bool find_xmm(const char *word, uint8_t *ret_reg)
{
	char *end;
	unsigned long number;

	if (strncmp(word, "xmm", 3) != 0 || !isdigit((unsigned char)word[3]))
		return false;
	number = strtoul(word + 3, &end, 10);
	*ret_reg = (uint8_t)number;
	return *end == '\0' && number < 16;
}

static bool is_symbol_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

/* A number, or a symbol's address. */
static bool take_term(struct parser *p, int64_t *ret_value)
{
	char name[SYMBOL_MAX], *end;
	uint64_t address;
	size_t length = 0;

	if (isdigit((unsigned char)*p->at)) {
		errno = 0;
		*ret_value = (int64_t)strtoull(p->at, &end, 0);
		p->at = end;
		return !errno;
	}
	while (is_symbol_char(*p->at) && length < sizeof(name) - 1)
		name[length++] = *p->at++;
	name[length] = '\0';
	if (!length || is_symbol_char(*p->at) || p->argument.is_relative || !p->symbols ||
	    !p->symbols->find(p->symbols->context, name, &address))
		return false;
	*ret_value = (int64_t)address;
	p->argument.is_relative = true;
	return true;
}

/* Terms with + and -: 40+CheckpointStats. At most one symbol, and not subtracted. */
static bool take_sum(struct parser *p)
{
	uint64_t sum = 0;
	bool minus = take(p, '-');

	do {
		bool relative = p->argument.is_relative;
		int64_t term;

		if (!take_term(p, &term) || (minus && p->argument.is_relative != relative))
			return false;
		sum = minus ? sum - (uint64_t)term : sum + (uint64_t)term;
		minus = *p->at == '-';
	} while (take(p, '+') || take(p, '-'));
	p->argument.disp = (int64_t)sum;
	return true;
}

/* A register of an address. */
static bool take_address_register(struct parser *p, uint8_t *ret_reg)
{
	uint8_t shift;
	char word[8];

	if (!take_word(p, word))
		return false;
	if (strcmp(word, "rip") == 0) {
		*ret_reg = REG_RIP;
		return true;
	}
	/* a 32-bit register is no address */
	return word[0] == 'r' && find_register(word, ret_reg, &shift) &&
	       strcmp(registers[*ret_reg][0], word) == 0;
}

/* (BASE), (BASE,INDEX), (,INDEX,SCALE)... after the '('. */
static bool take_registers(struct parser *p)
{
	struct sdt_argument *a = &p->argument;

	if (*p->at == '%' && !take_address_register(p, &a->base))
		return false;
	if (take(p, ',')) {
		if (!take_address_register(p, &a->index) || a->index == REG_RIP)
			return false;
		if (take(p, ',')) {
			if (!strchr("1248", *p->at) || !*p->at)
				return false;
			a->scale = (uint8_t)(*p->at++ - '0');
		}
	}
	if (a->base == REG_RIP) { /* the address of the symbol itself */
		if (!a->is_relative || a->index != SDT_NO_REGISTER)
			return false;
		a->base = SDT_NO_REGISTER;
	}
	return take(p, ')');
}

static bool take_memory(struct parser *p)
{
	struct sdt_argument *a = &p->argument;

	a->kind = SDT_MEMORY;
	if (*p->at != '(' && !take_sum(p))
		return false;
	return !take(p, '(') || take_registers(p);
}

/* A register, or memory of a segment. */
static bool take_register(struct parser *p)
{
	struct sdt_argument *a = &p->argument;
	char word[8];

	if (!take_word(p, word))
		return false;
	if (take(p, ':')) {
		if (strcmp(word, "fs") != 0 && strcmp(word, "gs") != 0)
			return false;
		a->segment = (uint8_t)word[0];
		return take_memory(p) && !a->is_relative;
	}
	a->kind = SDT_XMM;
	if (find_xmm(word, &a->reg))
		return a->size >= 4;
	a->kind = SDT_REGISTER;
	return find_register(word, &a->reg, &a->shift) && (!a->shift || a->size == 1);
}

static bool take_operand(struct parser *p)
{
	if (take(p, '$')) {
		p->argument.kind = SDT_CONSTANT;
		return take_sum(p);
	}
	return *p->at == '%' ? take_register(p) : take_memory(p);
}

/* SIZE@ */
static bool take_size(struct parser *p)
{
	struct sdt_argument *a = &p->argument;
	const char *start = p->at;

	a->is_signed = take(p, '-');
	a->size = (uint8_t)(isdigit((unsigned char)*p->at) ? *p->at++ - '0' : 0);
	a->is_float = take(p, 'f');
	if (take(p, '@')) {
		a->is_signed &= !a->is_float;
		return a->size == 1 || a->size == 2 || a->size == 4 || a->size == 8;
	}
	/* Old notes have no size; a size of several digits is an error. */
	p->at = start;
	a->is_signed = a->is_float = false;
	a->size = 8;
	return !memchr(start, '@', strcspn(start, " \t"));
}

bool sdt_next_argument(const char **text, const struct sdt_symbols *symbols,
		       struct sdt_argument *ret_argument)
{
	struct parser p = {
		.at = *text + strspn(*text, " \t"),
		.symbols = symbols,
		.argument = { .base = SDT_NO_REGISTER, .index = SDT_NO_REGISTER, .scale = 1 }
	};
	const char *end = p.at + strcspn(p.at, " \t");

	if (!*p.at)
		return false;
	bool good = take_size(&p) && take_operand(&p) && p.at == end;

	good &= !p.argument.is_float || p.argument.size >= 4;
	if (!good) {
		uint8_t size = p.argument.size;

		p.argument = (struct sdt_argument){ .kind = SDT_UNKNOWN, .size = size };
	}
	*text = end;
	*ret_argument = p.argument;
	return true;
}
