#include "find_code.h"

#include "../../shared/layout.h"
#include "record_code.h"

#define SAVED_RAX 32
#define STUBS_SHIFT 22

_Static_assert((uint64_t)DT_STUBS_MAX * DT_STUB_SIZE == 1ULL << STUBS_SHIFT, "all stubs");

/* struct dwarf_eh_bases of libgcc: two bases that absolute addresses have no need of, and where the code begins. */
#define BASES_TEXT 0
#define BASES_DATA 8
#define BASES_FUNCTION 16

void find_emit(struct emitter *e, const struct tramp_env *env, bool keep_red_zone)
{
	struct label no = { 0 };

	emit_note(e, "is it about a return stub?");
	emit_mov_imm(e, RAX, env->stubs.v);
	emit_mov(e, RCX, RDI);
	emit_alu(e, ALU_SUB, RCX, RAX);
	emit_shr_imm(e, RCX, STUBS_SHIFT);
	emit_jcc(e, CC_NE, &no);
	emit_note(e, "then this is the answer");
	emit_store_imm(e, mem_at(RSI, BASES_TEXT), 0);
	emit_store_imm(e, mem_at(RSI, BASES_DATA), 0);
	emit_store(e, mem_at(RSI, BASES_FUNCTION), RAX);
	emit_mov_imm(e, RAX, env->fde.v);
	emit_store(e, mem_at(RSP, SAVED_RAX), RAX);
	record_emit_restore(e, keep_red_zone);
	emit_ret(e);
	emit_bind(e, &no);
}
