#include "risky_calls.h"

#include <string.h>
#include <sys/syscall.h>

#include "call_number.h"
#include "control/base/cleanup.h"

#define LOOK_BACK 16 /* instructions */
#define STRAIGHT_MAX 4096 /* bytes of code without a jump */
#define INSN_MAX 15
#define NEAR (LOOK_BACK * INSN_MAX) /* bytes */
#define CALLS_MAX 1023 /* the largest system call number, but for those of x32 */
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static const uint8_t syscall_code[] = { 0x0f, 0x05 };

/* System calls with a signal mask, an action or an alternate stack (X3) among their arguments, and
 * the one that makes frames of signals larger (X8). */
static const uint64_t harmful_calls[] = {
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigsuspend, SYS_pselect6,	     SYS_ppoll,
	SYS_epoll_pwait,  SYS_epoll_pwait2,   SYS_io_pgetevents, SYS_io_uring_enter,
	SYS_sigaltstack,  SYS_arch_prctl,
};

/* (X10) System calls that no guard makes safe, outside of a libc: threads that share a thread block
 * with another, masks out of a frame that the code made itself, filters that nobody notices. */
static const uint64_t unsafe_calls[] = {
	SYS_clone, SYS_clone3, SYS_vfork, SYS_rt_sigreturn, SYS_seccomp, SYS_prctl,
};

static bool is_among(const uint64_t *calls, size_t count, uint64_t number)
{
	for (size_t i = 0; i < count; i++) {
		if (calls[i] == number)
			return true;
	}
	return false;
}

static bool is_harmful(uint64_t number)
{
	return is_among(harmful_calls, sizeof(harmful_calls) / sizeof(harmful_calls[0]), number);
}

static bool is_unsafe(uint64_t number)
{
	return is_among(unsafe_calls, sizeof(unsafe_calls) / sizeof(unsafe_calls[0]), number);
}

static bool is_rax(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand->reg.value) ==
		       ZYDIS_REGISTER_RAX;
}

static bool writes_rax(const struct insn *insn)
{
	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_SYSCALL)
		return true;
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (is_rax(operand) && (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			return true;
	}
	return false;
}

/* Is it mov $number, %eax or xor %eax, %eax? */
static bool sets_number(const struct insn *insn, uint64_t *ret_number)
{
	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_XOR && insn->operands[0].size >= 32 &&
	    is_rax(&insn->operands[0]) && is_rax(&insn->operands[1])) {
		*ret_number = 0;
		return true;
	}
	if (insn->zydis.mnemonic != ZYDIS_MNEMONIC_MOV ||
	    insn->operands[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !is_rax(&insn->operands[0]) ||
	    insn->operands[0].size < 32)
		return false;
	*ret_number = insn->operands[1].imm.value.u & 0xffffffff;
	return true;
}

/* The number of the system call. False unless execution comes straight from an instruction that
 * sets it. */
static bool find_number(const struct body *body, size_t index, uint64_t *ret_number)
{
	for (size_t i = index;
	     i > 0 && index - i < LOOK_BACK && body->insns.items[i].way == WAY_NONE; i--) {
		const struct body_insn *before = &body->insns.items[i - 1];
		struct insn insn;

		if ((before->flow != FLOW_NEXT && before->flow != FLOW_BRANCH) ||
		    !decode(body->text->bytes + (before->at - body->text->address), before->length,
			    taddr_of(before->at), &insn))
			return false;
		if (body->branch_targets && branch_targets_inside(body->branch_targets, before->at,
								  body->insns.items[i].at))
			return false; /* the bytes hold other instructions, too (X11) */
		if (sets_number(&insn, ret_number))
			return true;
		if (writes_rax(&insn))
			return false;
	}
	return false;
}

static const uint8_t to_rax[] = { 0x48, 0xc7, 0xc0 };

/* The number, if the bytes directly before are mov $number, %eax (or %rax). They must be that
 * instruction, and not the end of a longer one, as of mov $number, %r8d. */
static bool read_number(const struct text_range *text, uint64_t at, uint32_t *ret_number)
{
	uint64_t before = at - text->address;
	const uint8_t *code = text->bytes + before;
	struct insn insn;
	bool wide;

	if (before < INSN_MAX)
		return false;
	wide = !memcmp(code - 7, to_rax, sizeof(to_rax));
	if (!wide && code[-5] != 0xb8)
		return false;
	for (unsigned i = wide ? 8 : 6; i <= INSN_MAX; i++) {
		if (decode_quick(code - i, i, taddr_of(at - i), &insn) && insn.length == i)
			return false;
	}
	memcpy(ret_number, code - sizeof(*ret_number), sizeof(*ret_number));
	return true;
}

static struct error *find_targets(struct risky_calls *search,
				  const struct branch_targets **ret_targets)
{
	struct error *error = NULL;

	*ret_targets = search->view->branch_targets;
	if (*ret_targets)
		return NULL;
	if (!search->branch_targets)
		error = branch_cache_get(search->view->symtab, &search->branch_targets);
	*ret_targets = search->branch_targets;
	return error;
}

/* Does a harmless mov $number, %eax (or %rax) stand directly before, and no other way lead there?
 * For code outside known functions: clone, and the end of signal handlers. */
static bool says_harmless(const struct risky_calls *search, const struct branch_targets *targets,
			  uint64_t at)
{
	uint32_t number;

	return read_number(symtab_text(search->view->symtab, at), at, &number) &&
	       number <= CALLS_MAX && !is_harmful(number) &&
	       !(search->other && is_unsafe(number)) && !branch_targets_at(targets, at);
}

/* Does code at `from` reach `at` without a jump, a return, or bytes that are no code? */
static bool leads_to(const struct text_range *text, uint64_t from, uint64_t at)
{
	struct insn insn;

	while (from < at) {
		if (!decode_quick(text->bytes + (from - text->address),
				  text->address + text->size - from, taddr_of(from), &insn) ||
		    (insn.flow != FLOW_NEXT && insn.flow != FLOW_BRANCH && insn.flow != FLOW_CALL))
			return false;
		from += insn.length;
	}
	return from == at;
}

/*
 * Can the bytes at `at` be executed? Outside known functions lie code without unwind tables and
 * data (libcrypto's tables of constants). Code there runs only if a branch leads to the bytes
 * themselves, or to bytes before them that fall through.
 */
static bool may_run(const struct risky_calls *search, const struct branch_targets *targets,
		    uint64_t at)
{
	const struct text_range *text = symtab_text(search->view->symtab, at);
	uint64_t start, end, from = at;

	for (; from > text->address && at - from < STRAIGHT_MAX; from--) {
		if (function_bounds(search->view, NULL, from, &start, &end))
			break;
		if (branch_targets_at(targets, from) && leads_to(text, from, at))
			return true;
	}
	/* falling through from the function before, or from far away */
	for (size_t i = 0; i < INSN_MAX && from + i <= at; i++) {
		if (leads_to(text, from + i, at))
			return true;
	}
	return false;
}

static struct error *judge_unknown(struct risky_calls *search, uint64_t at)
{
	const struct branch_targets *targets;
	struct error *error = find_targets(search, &targets);

	if (!error && !says_harmless(search, targets, at) && may_run(search, targets, at))
		error = error_new(ERROR_REFUSED, "no function is known at 0x%lx", at);
	return error;
}

/* (X10) A clone of the libc's may share all memory, but neither masks nor actions. The end of a
 * handler changes the mask (X17). */
static bool needs_guard(const struct risky_calls *search, uint64_t number)
{
	return is_harmful(number) ||
	       (!search->other && (number == SYS_clone || number == SYS_rt_sigreturn));
}

/* Does the instruction need a guard? */
static struct error *judge_call(const struct risky_calls *search, size_t index, bool *ret_needed)
{
	const struct body *body = &search->body;
	uint64_t number;
	bool known = find_number(body, index, &number) ||
		     (search->other && call_number_find(body, index, &number));

	if (known && search->other && is_unsafe(number))
		return error_new(ERROR_REFUSED, "makes system call %lu itself, at 0x%lx", number,
				 body->insns.items[index].at);
	*ret_needed = !known || number > CALLS_MAX || needs_guard(search, number);
	return NULL;
}

/* Adds the address to the list if the bytes there are a `syscall` of interest. */
static struct error *judge(struct risky_calls *search, uint64_t at)
{
	struct body *body = &search->body;
	size_t index;
	uint64_t number, start, end;

	if (!function_bounds(search->view, NULL, at, &start, &end))
		return search->only ? NULL : judge_unknown(search, at);
	if ((body->start != start || body->end != end) &&
	    !body_read(body, search->view->symtab, search->view->branch_targets, start, end))
		return error_new(ERROR_FAILED, "out of memory");
	if (!body_find(body, at, &index))
		return search->only ?
			       NULL :
			       error_new(ERROR_REFUSED, "the code at 0x%lx cannot be decoded", at);
	if (body->insns.items[index].at != at)
		return NULL;
	if (search->only && (!find_number(body, index, &number) || number != search->only))
		return NULL;
	bool needed = true;
	struct error *error = search->harmful && !search->only ?
				      judge_call(search, index, &needed) :
				      NULL;
	if (error || !needed)
		return error;
	return vec_push(&search->list, at) ? NULL : error_new(ERROR_FAILED, "out of memory");
}

static struct error *search_range(struct risky_calls *search, const struct text_range *text)
{
	const uint8_t *at = text->bytes, *end = text->bytes + text->size;
	struct error *error = NULL;

	while (!error &&
	       (at = memmem(at, (size_t)(end - at), syscall_code, sizeof(syscall_code))) != NULL)
		error = judge(search, text->address + (uint64_t)(at++ - text->bytes));
	return error;
}

struct error *risky_calls_find(struct risky_calls *search)
{
	const struct symtab *symtab = search->view->symtab;
	struct error *error = NULL;
	uint64_t next;

	for (uint64_t at = symtab_low(symtab) / DT_PAGE * DT_PAGE;
	     !error && at < symtab_high(symtab); at = next) {
		const struct text_range *text = symtab_text(symtab, at);

		next = text ? DT_ROUND_UP(text->address + text->size, DT_PAGE) : at + DT_PAGE;
		if (text)
			error = search_range(search, text);
	}
	body_free(&search->body);
	branch_cache_put(search->branch_targets);
	return error;
}

/* Is `code` in the text, and a `syscall` not far behind it? */
static bool calls_in(const struct text_range *text, const uint8_t *code, size_t length)
{
	const uint8_t *at = text->bytes, *end = text->bytes + text->size;

	while ((at = memmem(at, (size_t)(end - at), code, length)) != NULL) {
		size_t rest = (size_t)(end - ++at);

		if (memmem(at, rest < NEAR ? rest : NEAR, syscall_code, sizeof(syscall_code)))
			return true;
	}
	return false;
}

/* Might the code make that system call? A look at its bytes, which spares most programs the
 * search: all jumps of a big one take seconds to find. */
bool risky_calls_anywhere(const struct symtab *symtab, uint32_t number)
{
	uint8_t code[5] = { 0xb8 }; /* mov $number, %eax */
	uint64_t next;

	memcpy(code + 1, &number, sizeof(number));
	for (uint64_t at = symtab_low(symtab) / DT_PAGE * DT_PAGE; at < symtab_high(symtab);
	     at = next) {
		const struct text_range *text = symtab_text(symtab, at);

		next = text ? DT_ROUND_UP(text->address + text->size, DT_PAGE) : at + DT_PAGE;
		if (text && calls_in(text, code, sizeof(code)))
			return true;
	}
	return false;
}

struct error *risky_calls_in_bytes(struct proc *proc, const struct module *module,
				   const struct maps *maps, bool *ret_found)
{
	return module_has_code(proc, module, maps, syscall_code, sizeof(syscall_code), ret_found);
}
