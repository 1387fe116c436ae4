/*
 * hello - says hello, calls foo, exits with a status.
 *	hello [--calls N] [--status S]
 */
#include "foo.h"
#include "handshake.h"

int main(int argc, char **argv)
{
	handshake(argc, argv);
	foo_many(handshake_option(argc, argv, "calls", 3));
	puts("hello");
	return (int)handshake_option(argc, argv, "status", 0);
}
