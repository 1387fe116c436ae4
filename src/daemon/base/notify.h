/*
 * notify.h - what systemd and the daemon tell each other.
 *
 * One datagram to $NOTIFY_SOCKET and two variables: not worth a dependency on libsystemd. Without
 * systemd all of this does nothing.
 */
#ifndef DYNTRACE_NOTIFY_H
#define DYNTRACE_NOTIFY_H

/* "READY=1", "STOPPING=1", "STATUS=..." */
void notify_manager(const char *state);

/* The listening socket that systemd started us with (LISTEN_FDS); -1: none. */
int notify_inherited_socket(void);

#endif
