/* A library with thread-local variables: private, exported, and so many that a thread gets
 * them only at first use. */
static __thread long own = 77;
__thread int exported = 5;
static __thread int many[1000];

int library(int x)
{
	own++;
	exported += x;
	many[3] = x;
	return exported + (int)own + many[x % 5];
}
