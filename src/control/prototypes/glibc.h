/*
 * Functions of glibc's that its headers don't declare, or whose parameters are unions there: what
 * compilers call instead of a fortified function, and what deals with addresses of sockets.
 */
typedef unsigned long size_t;
typedef long ssize_t;
int __printf_chk(int flag, const char *format, ...);
int __fprintf_chk(struct _IO_FILE *stream, int flag, const char *format, ...);
int __sprintf_chk(char *s, int flag, size_t slen, const char *format, ...);
int __snprintf_chk(char *s, size_t maxlen, int flag, size_t slen, const char *format, ...);
int __asprintf_chk(char **result, int flag, const char *format, ...);
int __dprintf_chk(int fd, int flag, const char *format, ...);
void __syslog_chk(int priority, int flag, const char *format, ...);
int __vprintf_chk(int flag, const char *format, void *arguments);
int __vfprintf_chk(struct _IO_FILE *stream, int flag, const char *format, void *arguments);
int __vsprintf_chk(char *s, int flag, size_t slen, const char *format, void *arguments);
int __vsnprintf_chk(char *s, size_t maxlen, int flag, size_t slen, const char *format,
		    void *arguments);
int __vasprintf_chk(char **result, int flag, const char *format, void *arguments);
int __vdprintf_chk(int fd, int flag, const char *format, void *arguments);
void __vsyslog_chk(int priority, int flag, const char *format, void *arguments);
int __isoc99_scanf(const char *format, ...);
int __isoc99_fscanf(struct _IO_FILE *stream, const char *format, ...);
int __isoc99_sscanf(const char *s, const char *format, ...);
int __isoc99_vfscanf(struct _IO_FILE *stream, const char *format, void *arguments);
int __isoc99_vsscanf(const char *s, const char *format, void *arguments);
void *__memcpy_chk(void *dest, const void *src, size_t n, size_t destlen);
void *__memmove_chk(void *dest, const void *src, size_t n, size_t destlen);
void *__mempcpy_chk(void *dest, const void *src, size_t n, size_t destlen);
void *__memset_chk(void *dest, int c, size_t n, size_t destlen);
void __explicit_bzero_chk(void *dest, size_t n, size_t destlen);
char *__strcpy_chk(char *dest, const char *src, size_t destlen);
char *__stpcpy_chk(char *dest, const char *src, size_t destlen);
char *__strcat_chk(char *dest, const char *src, size_t destlen);
char *__strncpy_chk(char *dest, const char *src, size_t n, size_t destlen);
char *__stpncpy_chk(char *dest, const char *src, size_t n, size_t destlen);
char *__strncat_chk(char *dest, const char *src, size_t n, size_t destlen);
char *__fgets_chk(char *s, size_t size, int n, struct _IO_FILE *stream);
size_t __fread_chk(void *ptr, size_t ptrlen, size_t size, size_t n, struct _IO_FILE *stream);
ssize_t __read_chk(int fd, void *buf, size_t nbytes, size_t buflen);
ssize_t __pread_chk(int fd, void *buf, size_t nbytes, long offset, size_t buflen);
ssize_t __pread64_chk(int fd, void *buf, size_t nbytes, long offset, size_t buflen);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t buflen, int flags);
ssize_t __readlink_chk(const char *path, void *buf, size_t len, size_t buflen);
ssize_t __readlinkat_chk(int fd, const char *path, void *buf, size_t len, size_t buflen);
char *__getcwd_chk(char *buf, size_t size, size_t buflen);
char *__realpath_chk(const char *path, char *resolved, size_t resolvedlen);
int __gethostname_chk(char *buf, size_t len, size_t buflen);
int __getgroups_chk(int size, unsigned *list, size_t listlen);
int __poll_chk(struct pollfd *fds, unsigned long nfds, int timeout, size_t fdslen);
long __fdelt_chk(long fd);
void __longjmp_chk(struct __jmp_buf_tag *env, int val);
int __cxa_atexit(void (*function)(void *), void *argument, void *dso);
void __cxa_finalize(void *dso);
int accept(int fd, struct sockaddr *addr, unsigned *addr_len);
int accept4(int fd, struct sockaddr *addr, unsigned *addr_len, int flags);
int bind(int fd, const struct sockaddr *addr, unsigned len);
int connect(int fd, const struct sockaddr *addr, unsigned len);
int getpeername(int fd, struct sockaddr *addr, unsigned *len);
int getsockname(int fd, struct sockaddr *addr, unsigned *len);
ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr, unsigned *addr_len);
ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
	       unsigned addr_len);
