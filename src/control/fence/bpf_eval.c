/*
 * bpf_eval.c
 *
 * Jumps lead forward only, so a program of n instructions ends after n steps. A conditional jump on
 * an unknown value goes both ways: the first way in a call of its own, which costs at most one
 * frame per instruction.
 */
#include "bpf_eval.h"

#include <assert.h>
#include <string.h>

#define EVAL_STEPS (1u << 16) /* over all paths */
#define UNKNOWN_A (1u << BPF_MEMWORDS) /* in machine.unknown; bit n: memory word n */
#define UNKNOWN_X (2u << BPF_MEMWORDS)

struct machine {
	const struct sock_filter *code;
	size_t count;
	const struct bpf_call *call;
	uint32_t *steps; /* left, for all paths together */
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
	uint32_t unknown;
};

bool bpf_is_stricter(uint32_t answer, uint32_t than)
{
	return (int32_t)(answer & SECCOMP_RET_ACTION_FULL) <
	       (int32_t)(than & SECCOMP_RET_ACTION_FULL);
}

static void set(struct machine *m, uint32_t which, uint32_t *value, uint32_t to, bool unknown)
{
	*value = to;
	m->unknown = unknown ? m->unknown | which : m->unknown & ~which;
}

static bool load(struct machine *m, const struct sock_filter *i)
{
	bool to_x = BPF_CLASS(i->code) == BPF_LDX, unknown = false;
	uint32_t value;

	switch (i->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		if (i->k % 4 || i->k >= sizeof(m->call->data))
			return false;
		memcpy(&value, (const char *)&m->call->data + i->k, sizeof(value));
		unknown = m->call->unknown >> (i->k / 4) & 1;
		break;
	case BPF_LD | BPF_W | BPF_LEN:
	case BPF_LDX | BPF_W | BPF_LEN:
		value = sizeof(m->call->data);
		break;
	case BPF_LD | BPF_IMM:
	case BPF_LDX | BPF_IMM:
		value = i->k;
		break;
	case BPF_LD | BPF_MEM:
	case BPF_LDX | BPF_MEM:
		if (i->k >= BPF_MEMWORDS)
			return false;
		value = m->memory[i->k];
		unknown = m->unknown >> i->k & 1;
		break;
	default:
		return false;
	}
	set(m, to_x ? UNKNOWN_X : UNKNOWN_A, to_x ? &m->x : &m->a, value, unknown);
	return true;
}

static bool store(struct machine *m, const struct sock_filter *i)
{
	bool x = i->code == BPF_STX;

	if ((i->code != BPF_ST && !x) || i->k >= BPF_MEMWORDS)
		return false;
	set(m, 1u << i->k, &m->memory[i->k], x ? m->x : m->a,
	    m->unknown & (x ? UNKNOWN_X : UNKNOWN_A));
	return true;
}

/* *ret_ends: a division that is, or may be, by 0. */
static bool compute(struct machine *m, const struct sock_filter *i, bool *ret_ends)
{
	bool by_x = BPF_SRC(i->code) == BPF_X;
	uint32_t by = by_x ? m->x : i->k, a = m->a;
	bool unknown = m->unknown & UNKNOWN_A || (by_x && m->unknown & UNKNOWN_X);

	switch (BPF_OP(i->code)) {
	case BPF_ADD: a += by; break;
	case BPF_SUB: a -= by; break;
	case BPF_MUL: a *= by; break;
	case BPF_AND: a &= by; break;
	case BPF_OR: a |= by; break;
	case BPF_XOR: a ^= by; break;
	case BPF_LSH: a <<= by & 31; break;
	case BPF_RSH: a >>= by & 31; break;
	case BPF_NEG:
		a = -a;
		unknown = m->unknown & UNKNOWN_A;
		break;
	case BPF_DIV:
		*ret_ends = !by || (by_x && m->unknown & UNKNOWN_X);
		a = by ? a / by : 0;
		break;
	default:
		return false;
	}
	set(m, UNKNOWN_A, &m->a, a, unknown);
	return true;
}

static bool is_taken(const struct machine *m, const struct sock_filter *i)
{
	uint32_t with = BPF_SRC(i->code) == BPF_X ? m->x : i->k;

	switch (BPF_OP(i->code)) {
	case BPF_JEQ: return m->a == with;
	case BPF_JGT: return m->a > with;
	case BPF_JGE: return m->a >= with;
	default: return m->a & with;
	}
}

static bool is_condition(uint16_t code)
{
	uint16_t op = BPF_OP(code);

	return (code == (BPF_JMP | op | BPF_K) || code == (BPF_JMP | op | BPF_X)) &&
	       (op == BPF_JEQ || op == BPF_JGT || op == BPF_JGE || op == BPF_JSET);
}

static bool is_return(const struct machine *m, const struct sock_filter *i, uint32_t *ret_answer)
{
	if (i->code == (BPF_RET | BPF_K))
		*ret_answer = i->k;
	else if (i->code == (BPF_RET | BPF_A))
		/* any number can be unknown: nothing is stricter than this one */
		*ret_answer = m->unknown & UNKNOWN_A ? SECCOMP_RET_KILL_PROCESS : m->a;
	else
		return false;
	return true;
}

/* Executes one instruction that neither jumps nor returns. */
static bool execute(struct machine *m, const struct sock_filter *i, bool *ret_ends)
{
	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
	case BPF_LDX:
		return load(m, i);
	case BPF_ST:
	case BPF_STX:
		return store(m, i);
	case BPF_ALU:
		return i->code < 0x100 && compute(m, i, ret_ends);
	case BPF_MISC:
		if (i->code == (BPF_MISC | BPF_TAX))
			set(m, UNKNOWN_X, &m->x, m->a, m->unknown & UNKNOWN_A);
		else if (i->code == (BPF_MISC | BPF_TXA))
			set(m, UNKNOWN_A, &m->a, m->x, m->unknown & UNKNOWN_X);
		else
			return false;
		return true;
	default:
		return false;
	}
}

static bool run(struct machine *m, size_t at, uint32_t *ret_answer);

/* Follows a conditional jump on an unknown value both ways. */
static bool fork_at(const struct machine *m, size_t at, uint32_t *ret_answer)
{
	const struct sock_filter *i = &m->code[at];
	struct machine other = *m;
	uint32_t first, second;

	if (!run(&other, at + 1 + i->jt, &first))
		return false;
	other = *m;
	if (!run(&other, at + 1 + i->jf, &second))
		return false;
	*ret_answer = bpf_is_stricter(second, first) ? second : first;
	return true;
}

static bool run(struct machine *m, size_t at, uint32_t *ret_answer)
{
	for (; at < m->count && *m->steps; at++) {
		const struct sock_filter *i = &m->code[at];
		bool by_x = BPF_SRC(i->code) == BPF_X, ends = false;

		--*m->steps;
		if (BPF_CLASS(i->code) == BPF_RET)
			return is_return(m, i, ret_answer);
		if (i->code == (BPF_JMP | BPF_JA)) {
			if (i->k >= m->count)
				return false;
			at += i->k;
		} else if (is_condition(i->code)) {
			if (m->unknown & UNKNOWN_A || (by_x && m->unknown & UNKNOWN_X))
				return fork_at(m, at, ret_answer);
			at += is_taken(m, i) ? i->jt : i->jf;
		} else if (!execute(m, i, &ends)) {
			return false;
		}
		if (ends) { /* the kernel's answer to a division by 0 is 0 */
			*ret_answer = m->unknown & UNKNOWN_X && by_x ? SECCOMP_RET_KILL_PROCESS : 0;
			return true;
		}
	}
	return false;
}

bool bpf_eval(const struct sock_filter *code, size_t count, const struct bpf_call *call,
	      uint32_t *ret_answer)
{
	uint32_t steps = EVAL_STEPS, answer = 0;
	struct machine m = { .code = code, .count = count, .call = call, .steps = &steps };

	_Static_assert(BPF_EVAL_WORDS <= 32, "bpf_call.unknown");
	if (count > BPF_MAXINSNS || !run(&m, 0, &answer))
		return false;
	*ret_answer = answer;
	return true;
}
