#include "control/codegen/watch_code.h"

#include "control/codegen/record_code.h"

static void emit_ask(struct emitter *e, const struct tramp_env *env, uint32_t asks)
{
	emit_note(e, "the agent notifies the controller, and waits for it");
	emit_mov_imm(e, RAX, asks);
	record_emit_slow_call(e, env, 0);
}

/* Jumps to `yes` if the arguments are these. */
static void emit_match(struct emitter *e, const struct tramp_watch *watch, struct label *yes)
{
	static const enum reg args[] = { RDI, RSI, RDX };
	struct label no = { 0 };

	for (size_t i = 0; i < watch->count; i++) {
		emit_mov32(e, RAX, args[i]);
		emit_xor_imm(e, RAX, (int32_t)watch->args[i]);
		emit_jcc(e, CC_NE, &no);
	}
	if (watch->pointer) {
		emit_mov(e, RAX, (enum reg)watch->pointer);
		emit_or(e, RAX, RAX);
		emit_jcc(e, CC_E, &no);
	}
	emit_jmp(e, yes);
	emit_bind(e, &no);
}

#define FILTERED offsetof(struct dt_state, inherited.filtered)

/* Sets one word in this process's state and one in the pool. */
static void emit_watches(struct emitter *e, const struct tramp_env *env,
			 const struct tramp_event *event)
{
	struct label yes = { 0 }, both = { 0 }, clock = { 0 }, no = { 0 };

	if (!event->watch_count)
		return;
	emit_note(e, "does it begin to filter system calls, or forbid itself the clock?");
	for (size_t i = 0; i < event->watch_count; i++) {
		const struct tramp_watch *watch = &event->watches[i];

		emit_match(e, watch, watch->calls_stay ? &clock : watch->clock ? &both : &yes);
	}
	emit_jmp(e, &no);
	emit_bind(e, &clock);
	emit_ask(e, env, DT_ASK_CLOCK);
	emit_jmp(e, &no);
	emit_bind(e, &both);
	emit_ask(e, env, DT_ASK_CLOCK);
	emit_bind(e, &yes);
	emit_note(e, "then notify the controller");
	emit_mov_imm(e, RAX, env->pool.v + offsetof(struct dt_pool, filter_asked));
	emit_store_imm32(e, mem_at(RAX, 0), 1);
	emit_ask(e, env, DT_ASK_MODULES);
	emit_note(e, "the agent makes no more system calls");
	emit_ask(e, env, DT_ASK_BLOCK); /* the last one */
	emit_mov_imm(e, RAX, record_state_word(env, FILTERED).v);
	emit_store_imm32(e, mem_at(RAX, 0), 1);
	emit_mov_imm(e, RAX, env->pool.v + offsetof(struct dt_pool, filtered));
	emit_store_imm32(e, mem_at(RAX, 0), 1);
	emit_ask(e, env, DT_ASK_STILL); /* Q6 */
	emit_bind(e, &no);
}

void watch_emit(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event)
{
	emit_watches(e, env, event);
	if (event->asks)
		emit_ask(e, env, event->asks);
}
