/*
 * emit.h - machine code, one instruction per call.
 *
 * Writes bytes to a buffer here; `pc` is the address in the target where they will run. Overflow
 * and out-of-range operands are sticky: check emit_failed() once at the end. Labels are resolved
 * when they are bound or when the jump is emitted, whichever is later. Jumps back to labels are as
 * short as possible. Jumps forward are rel32, unless the _short form is used or the emitter is
 * tight: then they are rel8, and the emitter fails if one doesn't reach; the caller tries again
 * without `tight`.
 */
#ifndef DYNTRACE_EMIT_H
#define DYNTRACE_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/taddr.h"

enum reg {
	RAX,
	RCX,
	RDX,
	RBX,
	RSP,
	RBP,
	RSI,
	RDI,
	R8,
	R9,
	R10,
	R11,
	R12,
	R13,
	R14,
	R15,
	REG_NONE = -1
};
enum segment { SEG_NONE, SEG_FS, SEG_GS };
enum cond {
	CC_O,
	CC_NO,
	CC_B,
	CC_AE,
	CC_E,
	CC_NE,
	CC_BE,
	CC_A,
	CC_S,
	CC_NS,
	CC_P,
	CC_NP,
	CC_L,
	CC_GE,
	CC_LE,
	CC_G
};

/* Values are the number that an operation's opcodes have in common. */
enum alu { ALU_ADD = 0, ALU_OR = 1, ALU_AND = 4, ALU_SUB = 5, ALU_XOR = 6, ALU_CMP = 7 };

/* [segment: base + index * scale + disp], or [rip + distance to `absolute`] when rip_relative. */
struct mem {
	enum reg base, index;
	uint8_t scale; /* 1, 2, 4, 8 */
	int32_t disp;
	enum segment segment;
	bool rip_relative;
	taddr absolute;
};

struct mem mem_at(enum reg base, int32_t disp);
struct mem mem_index(enum reg base, enum reg index, uint8_t scale, int32_t disp);
struct mem mem_fs(enum reg base, int32_t disp);
struct mem mem_rip(taddr absolute);

#define EMIT_FIXUPS_MAX 32

struct label {
	bool bound;
	size_t at; /* offset in the buffer, when bound */
	uint32_t fixups[EMIT_FIXUPS_MAX]; /* offsets of rel32 (or rel8) fields */
	bool fixup_short[EMIT_FIXUPS_MAX];
	size_t fixup_count;
};

/* The purpose of the instructions from `at` on, for disassemblies. */
struct emit_note {
	size_t at; /* in the buffer */
	const char *text; /* a constant */
};

struct emit_notes {
	struct emit_note *items;
	size_t count, room;
};

/* State of the stack from `at` on, for unwinding. */
struct emit_row {
	size_t at; /* in the buffer */
	int32_t depth; /* bytes by which rsp is lower than at the code's entry */
	uint8_t origin; /* origin, kept: the caller's own numbers */
	uint8_t kept;
};

struct emit_rows {
	struct emit_row *items;
	size_t count, room;
};

struct emitter {
	struct emit_rows *rows; /* NULL: not wanted. Set after emit_init; borrowed */
	struct emit_row row; /* the last row */
	struct emit_notes *notes; /* NULL: not wanted. Set after emit_init; borrowed */
	uint8_t *bytes;
	size_t size;
	size_t room;
	taddr pc; /* where bytes[0] will run */
	bool failed;
	bool tight; /* forward jumps are rel8; set after emit_init */
};

void emit_init(struct emitter *e, uint8_t *bytes, size_t room, taddr pc);
/* Describes the instructions from the next one up to the next note. */
void emit_note(struct emitter *e, const char *text);
/* Sets the row from here on, where no code falls through to, or where origin or kept change.
 * Pushes, pops and additions to rsp by lea make rows by themselves. */
void emit_row(struct emitter *e, int32_t depth, uint8_t origin, uint8_t kept);
bool emit_failed(const struct emitter *e);
taddr emit_pc(const struct emitter *e); /* of the next instruction */
/* Does an instruction that ends at `end` reach `to` with a 32-bit distance? */
bool emit_reaches(taddr end, taddr to);
void emit_bind(struct emitter *e, struct label *label);
void emit_bytes(struct emitter *e, const void *bytes, size_t n);
void emit_align(struct emitter *e, size_t to); /* with int3 */
void emit_u64(struct emitter *e, uint64_t value);

/* 64-bit unless the name ends in 32 or 8. Loads to a 32-bit register clear its upper half. */
void emit_push(struct emitter *e, enum reg reg);
void emit_pop(struct emitter *e, enum reg reg);
void emit_push_mem(struct emitter *e, struct mem from);
void emit_push_imm32(struct emitter *e, int32_t value); /* sign-extended */
void emit_mov(struct emitter *e, enum reg to, enum reg from);
void emit_mov32(struct emitter *e, enum reg to, enum reg from);
void emit_mov_imm(struct emitter *e, enum reg to, uint64_t value); /* shortest form */
void emit_load(struct emitter *e, enum reg to, struct mem from);
void emit_load32(struct emitter *e, enum reg to, struct mem from);
/* zero-extended */
void emit_load_size(struct emitter *e, enum reg to, struct mem from, unsigned size);
void emit_store(struct emitter *e, struct mem to, enum reg from);
void emit_store32(struct emitter *e, struct mem to, enum reg from);
/* 1: rax..rbx only */
void emit_store_size(struct emitter *e, struct mem to, enum reg from, unsigned size);
void emit_store_xmm(struct emitter *e, struct mem to, unsigned xmm, unsigned size); /* 4, 8, 16 */
void emit_mov_from_xmm(struct emitter *e, enum reg to, unsigned xmm); /* the lower half */
void emit_store_imm32(struct emitter *e, struct mem to, int32_t value); /* 32-bit store */
void emit_store_imm8(struct emitter *e, struct mem to, uint8_t value); /* 8-bit store */
/* 64-bit store, sign-extended */
void emit_store_imm(struct emitter *e, struct mem to, int32_t value);
void emit_fstp80(struct emitter *e, struct mem to); /* st(0), 10 bytes, popped */
void emit_fld80(struct emitter *e, struct mem from);
void emit_lea(struct emitter *e, enum reg to, struct mem of);
void emit_alu(struct emitter *e, enum alu alu, enum reg to, enum reg from);
void emit_alu_imm(struct emitter *e, enum alu alu, enum reg to, int32_t value);
void emit_test_imm(struct emitter *e, enum reg reg, int32_t value);
void emit_imul(struct emitter *e, enum reg to, enum reg from);
void emit_div(struct emitter *e, enum reg by); /* rax = rdx:rax / by, rdx = the rest */
void emit_lock_xadd(struct emitter *e, struct mem what, enum reg with);
void emit_lock_add_mem(struct emitter *e, struct mem what, enum reg value);
void emit_add_mem(struct emitter *e, struct mem what, enum reg value); /* no lock prefix */
void emit_lock_inc_mem(struct emitter *e, struct mem what);
void emit_xchg(struct emitter *e, struct mem what, enum reg with); /* always locked */
void emit_lock_cmpxchg(struct emitter *e, struct mem what, enum reg with);
void emit_add(struct emitter *e, enum reg to, enum reg from);
void emit_add_imm(struct emitter *e, enum reg to, int32_t value);
void emit_add_imm32(struct emitter *e, enum reg to, int32_t value);
void emit_sub_mem(struct emitter *e, enum reg to, struct mem from);
void emit_or(struct emitter *e, enum reg to, enum reg from);
void emit_or_imm(struct emitter *e, enum reg to, int32_t value);
/* The number is always the last 4 bytes, even if a shorter form exists; not rax. */
void emit_or_long_imm(struct emitter *e, enum reg to, int32_t value);
void emit_and_imm32(struct emitter *e, enum reg to, int32_t value);
void emit_xor_imm(struct emitter *e, enum reg to, int32_t value);
void emit_not(struct emitter *e, enum reg reg);
void emit_shl_imm(struct emitter *e, enum reg reg, uint8_t count);
void emit_shr_imm(struct emitter *e, enum reg reg, uint8_t count);
void emit_sar_imm(struct emitter *e, enum reg reg, uint8_t count);
void emit_shr_cl(struct emitter *e, enum reg reg); /* by cl */
void emit_shl_cl(struct emitter *e, enum reg reg);
/* number of the highest bit that is set */
void emit_bsr(struct emitter *e, enum reg to, enum reg from);
void emit_imul_imm(struct emitter *e, enum reg to, enum reg from, int32_t value);
void emit_imul_mem32_imm(struct emitter *e, enum reg to, struct mem from, int32_t value);
void emit_mul(struct emitter *e, enum reg by); /* rdx:rax = rax * by */
void emit_shrd_imm(struct emitter *e, enum reg to, enum reg from, uint8_t count);
void emit_inc_mem32(struct emitter *e, struct mem what);
void emit_inc_mem(struct emitter *e, struct mem what);
void emit_inc_mem16(struct emitter *e, struct mem what);
void emit_dec_mem16(struct emitter *e, struct mem what);
void emit_cmp_mem(struct emitter *e, enum reg reg, struct mem with); /* cmp reg, [mem] */
void emit_cmp_mem32(struct emitter *e, enum reg reg, struct mem with);
/* cmp dword [mem], imm */
void emit_cmp_mem32_imm(struct emitter *e, struct mem what, int32_t value);
void emit_cmpxchg(struct emitter *e, struct mem what, enum reg with); /* no lock prefix */
void emit_rdtsc(struct emitter *e);
void emit_rdfsbase(struct emitter *e, enum reg to);
void emit_rdpid(struct emitter *e, enum reg to); /* node << 12 | CPU; not every processor has it */
void emit_lahf(struct emitter *e);
void emit_nop(struct emitter *e);
/* Does nothing; its last 4 bytes are the distance from its end to the label (shared/reads.h). */
void emit_mark(struct emitter *e, struct label *to);
void emit_sahf(struct emitter *e);
void emit_setcc8(struct emitter *e, enum cond cc, enum reg to); /* low byte of rax..rbx only */
void emit_add_al_imm8(struct emitter *e, int8_t value);
void emit_call_mem(struct emitter *e, struct mem to);
void emit_call_reg(struct emitter *e, enum reg to);
void emit_jmp_mem(struct emitter *e, struct mem to);
void emit_jmp_to(struct emitter *e, taddr to); /* jmp rel32; fails when out of reach */
void emit_call_to(struct emitter *e, taddr to); /* call rel32; likewise */
void emit_jcc_to(struct emitter *e, enum cond cc, taddr to);
void emit_jmp(struct emitter *e, struct label *to);
void emit_jmp_short(struct emitter *e, struct label *to);
/* True: the label is bound, and a jump of two bytes reaches it */
bool emit_is_near(const struct emitter *e, const struct label *to);
void emit_jcc(struct emitter *e, enum cond cc, struct label *to);
void emit_jcc_short(struct emitter *e, enum cond cc, struct label *to);
void emit_jrcxz(struct emitter *e, struct label *to); /* rel8 */
void emit_ret(struct emitter *e);
void emit_int3(struct emitter *e);

#endif
