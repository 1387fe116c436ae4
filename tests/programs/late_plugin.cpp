/* late_plugin.cpp - catches what it throws, with somebody else's function in between. */
extern "C" int inner(int n)
{
	throw n * 10;
}

extern "C" int outer(int (*between)(int), int n)
{
	try {
		return between(n);
	} catch (int value) {
		return value;
	}
}
