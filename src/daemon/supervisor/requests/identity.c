#include "identity.h"

#include <errno.h>
#include <sys/socket.h>

struct error *identity_of_peer(int fd, struct identity *ret_identity)
{
	struct identity identity = { 0 };
	struct ucred peer;
	socklen_t size = sizeof(peer), groups = sizeof(identity.groups);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return error_errno(errno, "SO_PEERCRED");
	identity.pid = peer.pid;
	identity.uid = peer.uid;
	identity.gid = peer.gid;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, identity.groups, &groups))
		identity.group_count = groups / sizeof(gid_t);
	*ret_identity = identity;
	return NULL;
}

bool identity_in_group(const struct identity *identity, gid_t group)
{
	for (size_t i = 0; i < identity->group_count; i++) {
		if (identity->groups[i] == group)
			return true;
	}
	return identity->gid == group;
}

void identity_write(const struct identity *identity, struct wire_out *out)
{
	wire_number(out, WIRE_UID, identity->uid);
	wire_number(out, WIRE_GID, identity->gid);
	for (size_t i = 0; i < identity->group_count; i++)
		wire_number(out, WIRE_GROUP, identity->groups[i]);
}

void identity_read(const struct wire_message *message, struct identity *ret_identity)
{
	struct identity identity = { .uid = (uid_t)wire_get_number(message, WIRE_UID, (uint64_t)-1),
				     .gid = (gid_t)wire_get_number(message, WIRE_GID,
								   (uint64_t)-1) };
	struct wire_value value;

	for (size_t at = 0; wire_next(message, &at, &value);) {
		if (value.tag == WIRE_GROUP && identity.group_count < IDENTITY_GROUPS_MAX)
			identity.groups[identity.group_count++] = (gid_t)value.number;
	}
	*ret_identity = identity;
}
