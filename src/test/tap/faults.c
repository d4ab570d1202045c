/*-------------------------------------------------------------------------
 *
 * faults.c
 *	  LD_PRELOAD shim of the tests: what a disk may do to files under pg_lsm.
 *
 *	LSM_FAULTS_SYNC_LOG	file that records every fsync of a file ("f inode birth size")
 *						and of a directory ("d inode", then "e inode name" per
 *						entry), in the order they succeeded.  After a crash a test
 *						throws away what was never synced.  Inodes are used again:
 *						the time of birth tells files apart.
 *	LSM_FAULTS_FULL		while this file exists, writes to files under pg_lsm fail
 *						with ENOSPC
 *	LSM_FAULTS_EIO		while this file exists, fsync of them fails with EIO; of directories
 *						alone, if that is what it says
 *	LSM_FAULTS_MAPS		while this file exists, a process that has mapped as many of
 *						them as the number in the file says has no memory for more
 *
 * Only processes whose environment names them do anything.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int
is_ours(int fd)
{
	char		link[64];
	char		path[PATH_MAX];
	ssize_t		n;
	int			saved = errno;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	errno = saved;
	if (n <= 0)
		return 0;
	path[n] = '\0';
	return strstr(path, "/pg_lsm") != NULL || strstr(path, "/smalldisk") != NULL;
}

static int
switch_is_on(const char *variable)
{
	const char *path = getenv(variable);
	int			saved = errno;
	int			on = path != NULL && access(path, F_OK) == 0;

	errno = saved;
	return on;
}

static ssize_t
real_write(int fd, const void *data, size_t bytes)
{
	static ssize_t (*next) (int, const void *, size_t);

	if (next == NULL)
		next = (ssize_t (*) (int, const void *, size_t)) dlsym(RTLD_NEXT, "write");
	return next(fd, data, bytes);
}

static void
record_sync(int fd)
{
	const char *path = getenv("LSM_FAULTS_SYNC_LOG");
	int			saved = errno;
	struct stat st;
	struct statx stx;
	int			out;
	char		line[128];

	if (path == NULL || fstat(fd, &st) != 0)
		return;
	out = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (out < 0)
		return;
	if (S_ISDIR(st.st_mode))
	{
		char		dirpath[64];
		DIR		   *dir;
		struct dirent *de;

		/* one write for all, so that processes do not mix their lines */
		static char buffer[1 << 20];
		size_t		used = 0;

		snprintf(dirpath, sizeof(dirpath), "/proc/self/fd/%d", fd);
		used += snprintf(buffer, sizeof(buffer), "d %lu\n", (unsigned long) st.st_ino);
		dir = opendir(dirpath);
		while (dir != NULL && (de = readdir(dir)) != NULL)
			if (de->d_name[0] != '.' && used < sizeof(buffer) - 128)
				used += snprintf(buffer + used, sizeof(buffer) - used, "e %lu %.100s\n",
								 (unsigned long) st.st_ino, de->d_name);
		if (dir != NULL)
			closedir(dir);
		(void) !real_write(out, buffer, used);
	}
	else
	{
		int			n;

		memset(&stx, 0, sizeof(stx));
		(void) statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx);
		n = snprintf(line, sizeof(line), "f %lu %lld %lld\n",
					 (unsigned long) st.st_ino, (long long) stx.stx_btime.tv_sec,
					 (long long) st.st_size);
		(void) !real_write(out, line, n);
	}
	close(out);
	errno = saved;
}

/* LSM_FAULTS_EIO */
static int
sync_fails(int fd)
{
	const char *path = getenv("LSM_FAULTS_EIO");
	int			saved = errno;
	FILE	   *f = path != NULL ? fopen(path, "r") : NULL;
	int			fails = f != NULL;
	char		what[16] = "";
	struct stat st;

	if (f != NULL)
	{
		if (fgets(what, sizeof(what), f) != NULL && strcmp(what, "directories") == 0)
			fails = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
		fclose(f);
	}
	errno = saved;
	return fails;
}

#define SYNC_FUNCTION(name) \
int \
name(int fd) \
{ \
	static int	(*next) (int); \
	int			ours = is_ours(fd); \
	int			result; \
\
	if (next == NULL) \
		next = (int (*) (int)) dlsym(RTLD_NEXT, #name); \
	if (ours && sync_fails(fd)) \
	{ \
		errno = EIO; \
		return -1; \
	} \
	result = next(fd); \
	if (result == 0 && ours) \
		record_sync(fd); \
	return result; \
}

SYNC_FUNCTION(fsync)
SYNC_FUNCTION(fdatasync)

#define IS_FULL(fd) (switch_is_on("LSM_FAULTS_FULL") && is_ours(fd))

ssize_t
write(int fd, const void *data, size_t bytes)
{
	if (IS_FULL(fd))
	{
		errno = ENOSPC;
		return -1;
	}
	return real_write(fd, data, bytes);
}

#define WRITE_FUNCTION(name, params, args) \
ssize_t \
name params \
{ \
	static ssize_t (*next) params; \
\
	if (IS_FULL(fd)) \
	{ \
		errno = ENOSPC; \
		return -1; \
	} \
	if (next == NULL) \
		next = (ssize_t (*) params) dlsym(RTLD_NEXT, #name); \
	return next args; \
}

WRITE_FUNCTION(pwrite, (int fd, const void *data, size_t bytes, off_t offset), (fd, data, bytes, offset))
WRITE_FUNCTION(pwrite64, (int fd, const void *data, size_t bytes, off64_t offset), (fd, data, bytes, offset))
WRITE_FUNCTION(writev, (int fd, const struct iovec *v, int n), (fd, v, n))

#define ALLOCATE_FUNCTION(name, result_on_full, params, args) \
int \
name params \
{ \
	static int	(*next) params; \
\
	if (IS_FULL(fd)) \
	{ \
		errno = ENOSPC; \
		return result_on_full; \
	} \
	if (next == NULL) \
		next = (int (*) params) dlsym(RTLD_NEXT, #name); \
	return next args; \
}

ALLOCATE_FUNCTION(fallocate, -1, (int fd, int mode, off_t offset, off_t bytes), (fd, mode, offset, bytes))
ALLOCATE_FUNCTION(fallocate64, -1, (int fd, int mode, off64_t offset, off64_t bytes), (fd, mode, offset, bytes))
ALLOCATE_FUNCTION(posix_fallocate, ENOSPC, (int fd, off_t offset, off_t bytes), (fd, offset, bytes))
ALLOCATE_FUNCTION(posix_fallocate64, ENOSPC, (int fd, off64_t offset, off64_t bytes), (fd, offset, bytes))

/* Mappings of our files that this process has; a process has one thread. */
static void *mapped[8192];
static int	nmapped = 0;

static int
mappings_allowed(void)
{
	const char *path = getenv("LSM_FAULTS_MAPS");
	int			allowed = INT_MAX;
	FILE	   *f = path != NULL ? fopen(path, "r") : NULL;

	if (f != NULL)
	{
		if (fscanf(f, "%d", &allowed) != 1)
			allowed = INT_MAX;
		fclose(f);
	}
	return allowed;
}

void *
mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	int			ours = fd >= 0 && getenv("LSM_FAULTS_MAPS") != NULL && is_ours(fd);
	int			saved = errno;
	void	   *result;

	if (ours && (nmapped >= (int) (sizeof(mapped) / sizeof(mapped[0])) || nmapped >= mappings_allowed()))
	{
		errno = ENOMEM;
		return MAP_FAILED;
	}
	errno = saved;
	result = (void *) syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
	if (ours && result != MAP_FAILED)
		mapped[nmapped++] = result;
	return result;
}

int
munmap(void *address, size_t bytes)
{
	for (int i = 0; i < nmapped; i++)
	{
		if (mapped[i] == address)
		{
			mapped[i] = mapped[--nmapped];
			break;
		}
	}
	return (int) syscall(SYS_munmap, address, bytes);
}
