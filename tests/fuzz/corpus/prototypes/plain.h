int open(const char *path, int flags, ...);
typedef unsigned long size_type;
void *make(size_type n, double x[3]);
