/*-------------------------------------------------------------------------
 *
 * file_copy.c
 *	  A file with the same bytes as another one.
 *
 * copy_file_range() leaves it to the file system how: with XFS and btrfs both
 * files refer to the same blocks, which takes no room, and a write to one of
 * them does not change the other.  Where it fails for any reason, what is left is
 * read and written; that says what is the matter, if it is not the call itself.
 *
 * No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"

#include "tree/disk/disk.h"

/* Copied between two looks for interrupts, in the kernel and by ourselves */
#define RANGE_BYTES		(4 * 1024 * 1024)
#define PIECE_BYTES		(128 * 1024)

typedef struct Copying
{
	const char *source;
	const char *target;
	int			from;
	int			to;
	off_t		offset;			/* so far */
	char	   *buffer;			/* NULL: by copy_file_range() */
} Copying;

/* How many bytes; 0: none, and the file need not be at its end. */
static ssize_t
copy_range(Copying *c)
{
#ifdef __linux__
	off_t		in = c->offset;
	off_t		out = c->offset;
	ssize_t		done;

	pgstat_report_wait_start(WAIT_EVENT_COPY_FILE_WRITE);
	done = copy_file_range(c->from, &in, c->to, &out, RANGE_BYTES, 0);
	pgstat_report_wait_end();
	return Max(done, 0);
#else
	return 0;
#endif
}

/* How many bytes; 0: at the end; -1: cannot be read. */
static ssize_t
copy_piece(Copying *c)
{
	ssize_t		got;

	pgstat_report_wait_start(WAIT_EVENT_COPY_FILE_READ);
	got = pg_pread(c->from, c->buffer, PIECE_BYTES, c->offset);
	pgstat_report_wait_end();
	for (ssize_t done = 0; done < got;)
	{
		ssize_t		put;

		errno = 0;
		pgstat_report_wait_start(WAIT_EVENT_COPY_FILE_WRITE);
		put = pg_pwrite(c->to, c->buffer + done, got - done, c->offset + done);
		pgstat_report_wait_end();
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
		{
			/* if write didn't set errno, assume problem is no disk space */
			if (errno == 0)
				errno = ENOSPC;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write file \"%s\": %m", c->target)));
		}
		done += put;
	}
	return got;
}

/* False: the source cannot be read. */
static bool
copy_content(Copying *c)
{
	for (;;)
	{
		ssize_t		done;

		CHECK_FOR_INTERRUPTS();
		done = c->buffer == NULL ? copy_range(c) : copy_piece(c);
		if (done > 0)
		{
			pg_flush_data(c->to, c->offset, done);
			c->offset += done;
		}
		else if (c->buffer == NULL)
			c->buffer = palloc(PIECE_BYTES);
		else if (done == 0)
			return true;
		else if (errno != EINTR)
			return false;
	}
}

static void
sync_and_close(Copying *c)
{
	lsm_sync_file(c->to, c->target);
	if (CloseTransientFile(c->to) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", c->target)));
}

/* See disk.h. */
bool
lsm_file_copy(const char *source, const char *target, int elevel)
{
	Copying		c = {.source = source,.target = target};
	bool		complete;
	int			save_errno;

	c.from = OpenTransientFile(source, O_RDONLY | PG_BINARY);
	if (c.from < 0)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", source)));
		return false;
	}
	c.to = OpenTransientFile(target, O_RDWR | O_CREAT | O_EXCL | PG_BINARY);
	if (c.to < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", target)));
	complete = copy_content(&c);
	save_errno = errno;
	if (complete)
		sync_and_close(&c);
	else
	{
		CloseTransientFile(c.to);
		(void) unlink(target);
	}
	CloseTransientFile(c.from);
	if (c.buffer != NULL)
		pfree(c.buffer);
	errno = save_errno;
	if (!complete)
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", source)));
	return complete;
}
