/*
 * target_recovery.h - targets of a supervisor that died.
 */
#ifndef DYNTRACE_TARGET_RECOVERY_H
#define DYNTRACE_TARGET_RECOVERY_H

struct supervisor;

/* Connects to the workers that an earlier supervisor left, and replaces those that died with it. */
void target_recovery_run(struct supervisor *supervisor);

#endif
