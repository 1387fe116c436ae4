/*
 * notify.h - the two things systemd and the daemon have to say to each other.
 *
 * A datagram to $NOTIFY_SOCKET and a few variables: not worth a dependency on libsystemd, which
 * would be in the daemon's address space for it. Without systemd all of this does nothing.
 */
#ifndef DYNTRACE_NOTIFY_H
#define DYNTRACE_NOTIFY_H

/* "READY=1", "STOPPING=1", "STATUS=..." */
void notify_manager(const char *state);

/* The listening socket that we were started with (LISTEN_FDS); -1: none. */
int notify_inherited_socket(void);

#endif
