/*-------------------------------------------------------------------------
 *
 * filter_cascade.c
 *	  Bench: cascade filter against a plain and an elevator Bloom filter when
 *	  the filter is four times as large as the memory it may use ("Don't
 *	  Thrash: How to Cache your Hash on Flash", section 3).
 *
 * filter_cascade DIRECTORY [keys]
 *
 * All three hold the same keys at the same rate of false positives (about
 * 2^-11) and have the same memory M, a quarter of what the Bloom filter takes:
 *
 * plain		bits are set and asked where they are; M is a cache of pages, least
 *				recently used first out, changed ones written back then
 * elevator		M is a buffer of bit positions; a full one is sorted and applied in
 *				one sweep over the file
 * cascade		M is a quotient filter in memory; a full one is merged with the levels
 *				below it up to the first empty one.  Levels are cascade images, and
 *				merges read and write them sequentially, page by page
 *
 * Every read and write of a file is done with O_DIRECT and counted here in
 * pages of 4 kB: there is no cache but M.  Sequential transfers are of 256 kB,
 * one buffer for each file open in a merge or sweep, which is not part of M.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "filter_bench.h"
#include "filter/filter_private.h"
#include "filter/quotient_private.h"

#define PAGE			LSM_FILTER_PAGE_BYTES
#define CHUNK_PAGES		64
#define LOOKUPS			20000
#define SAMPLE_SECONDS	15

static uint64_t pages_read;
static uint64_t pages_written;
static uint64_t transfers;
static const char *directory;
static uint64_t sink;

/* ---- files ---- */

static void
die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static int
open_file(const char *name)
{
	char		path[4096];
	int			fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
	if (fd < 0)
		die(path);
	unlink(path);
	return fd;
}

static void
read_pages(int fd, void *to, uint64_t page, uint64_t npages)
{
	if (pread(fd, to, npages * PAGE, (off_t) (page * PAGE)) != (ssize_t) (npages * PAGE))
		die("read");
	pages_read += npages;
	transfers++;
}

static void
write_pages(int fd, const void *from, uint64_t page, uint64_t npages)
{
	if (pwrite(fd, from, npages * PAGE, (off_t) (page * PAGE)) != (ssize_t) (npages * PAGE))
		die("write");
	pages_written += npages;
	transfers++;
}

/* A file read, or written, from its first page on. */
typedef struct Sequential
{
	int			fd;
	uint64_t	npages;
	uint64_t	first;			/* page at the start of the buffer */
	uint64_t	filled;
	uint8_t    *buffer;
} Sequential;

static const uint8_t *
next_page_in(void *arg, uint64_t page)
{
	Sequential *file = arg;

	if (page >= file->first + file->filled)
	{
		file->first = page;
		file->filled = file->npages - page < CHUNK_PAGES ? file->npages - page : CHUNK_PAGES;
		read_pages(file->fd, file->buffer, page, file->filled);
	}
	return file->buffer + (page - file->first) * PAGE;
}

static void
flush_out(Sequential *file)
{
	if (file->filled > 0)
		write_pages(file->fd, file->buffer, file->first, file->filled);
	file->first += file->filled;
	file->filled = 0;
	memset(file->buffer, 0, CHUNK_PAGES * PAGE);
}

static uint8_t *
next_page_out(void *arg, uint64_t page)
{
	Sequential *file = arg;

	if (page == file->first + CHUNK_PAGES)
		flush_out(file);
	file->filled = page - file->first + 1;
	return file->buffer + (page - file->first) * PAGE;
}

/* ---- a Bloom filter on storage, and its page cache ---- */

typedef struct Slot
{
	uint32_t	page;
	bool		used;
	bool		dirty;
	uint32_t	newer;
	uint32_t	older;
} Slot;

typedef struct Bloom
{
	LsmFilter	shape;
	int			fd;
	uint64_t	npages;
	/* page cache */
	uint32_t	nslots;
	Slot	   *slots;
	uint8_t    *memory;
	uint32_t   *where;			/* slot of a page, or UINT32_MAX */
	uint32_t	newest;
	uint32_t	oldest;
	uint32_t	nused;
} Bloom;

#define NO_SLOT	UINT32_MAX

static void
bloom_cache_init(Bloom *bloom, uint64_t memory_bytes)
{
	bloom->nslots = (uint32_t) (memory_bytes / PAGE);
	bloom->slots = alloc_aligned_or_die(bloom->nslots * sizeof(Slot));
	bloom->memory = alloc_aligned_or_die((size_t) bloom->nslots * PAGE);
	bloom->where = alloc_aligned_or_die(bloom->npages * sizeof(uint32_t));
	memset(bloom->where, 0xff, bloom->npages * sizeof(uint32_t));
	bloom->newest = bloom->oldest = NO_SLOT;
	bloom->nused = 0;
}

static void
cache_unlink(Bloom *bloom, uint32_t at)
{
	Slot	   *slot = &bloom->slots[at];

	if (slot->newer != NO_SLOT)
		bloom->slots[slot->newer].older = slot->older;
	else
		bloom->newest = slot->older;
	if (slot->older != NO_SLOT)
		bloom->slots[slot->older].newer = slot->newer;
	else
		bloom->oldest = slot->newer;
}

static void
cache_push(Bloom *bloom, uint32_t at)
{
	Slot	   *slot = &bloom->slots[at];

	slot->newer = NO_SLOT;
	slot->older = bloom->newest;
	if (bloom->newest != NO_SLOT)
		bloom->slots[bloom->newest].newer = at;
	else
		bloom->oldest = at;
	bloom->newest = at;
}

static uint8_t *
cache_page(Bloom *bloom, uint32_t page, bool dirty)
{
	uint32_t	at = bloom->where[page];

	if (at == NO_SLOT)
	{
		if (bloom->nused < bloom->nslots)
			at = bloom->nused++;
		else
		{
			at = bloom->oldest;
			cache_unlink(bloom, at);
			if (bloom->slots[at].dirty)
				write_pages(bloom->fd, bloom->memory + (size_t) at * PAGE, bloom->slots[at].page, 1);
			bloom->where[bloom->slots[at].page] = NO_SLOT;
		}
		read_pages(bloom->fd, bloom->memory + (size_t) at * PAGE, page, 1);
		bloom->slots[at].page = page;
		bloom->slots[at].dirty = false;
		bloom->where[page] = at;
	}
	else
		cache_unlink(bloom, at);
	cache_push(bloom, at);
	bloom->slots[at].dirty |= dirty;
	return bloom->memory + (size_t) at * PAGE;
}

/* As in src/filter/bloom.c. */
#define MULTIPLIER	UINT64_C(0xd1342543de82ef95)

static void
bloom_insert_plain(Bloom *bloom, LsmDigest digest)
{
	uint64_t	x = digest;

	for (uint32_t i = 0; i < bloom->shape.probes; i++)
	{
		uint64_t	bit = lsm_fast_range(x, bloom->shape.nbits);

		cache_page(bloom, (uint32_t) (bit / (PAGE * 8)), true)[bit / 8 % PAGE] |= (uint8_t) (1 << (bit % 8));
		x *= MULTIPLIER;
	}
}

static bool
bloom_lookup(Bloom *bloom, LsmDigest digest)
{
	uint64_t	x = digest;

	for (uint32_t i = 0; i < bloom->shape.probes; i++)
	{
		uint64_t	bit = lsm_fast_range(x, bloom->shape.nbits);

		if (((cache_page(bloom, (uint32_t) (bit / (PAGE * 8)), false)[bit / 8 % PAGE] >> (bit % 8)) & 1) == 0)
			return false;
		x *= MULTIPLIER;
	}
	return true;
}

static void
bloom_init(Bloom *bloom, const char *name, double bits_per_key, uint64_t n)
{
	LsmFilterParams params = {LSM_FILTER_BLOOM, bits_per_key, 0};
	uint8_t    *zeroes = alloc_aligned_or_die(CHUNK_PAGES * PAGE);

	memset(bloom, 0, sizeof(*bloom));
	if (!lsm_filter_plan(&params, n, &bloom->shape))
		exit(1);
	bloom->npages = (bloom->shape.payload_bytes + PAGE - 1) / PAGE;
	bloom->fd = open_file(name);
	for (uint64_t page = 0; page < bloom->npages; page += CHUNK_PAGES)
		write_pages(bloom->fd, zeroes, page, CHUNK_PAGES);
	free(zeroes);
}

/* Fill it from memory, not measured: for a sample of inserts into a filled one. */
static void
bloom_preload(Bloom *bloom, uint64_t n)
{
	uint8_t    *bits = alloc_aligned_or_die((bloom->npages + CHUNK_PAGES) * PAGE);
	LsmDigest	digests[1024];

	for (uint64_t i = 0; i < n; i += 1024)
	{
		uint64_t	m = n - i < 1024 ? n - i : 1024;

		for (uint64_t j = 0; j < m; j++)
			digests[j] = digest_of(i + j);
		lsm_bloom_ops.fill(&bloom->shape, digests, m, bits);
	}
	for (uint64_t page = 0; page < bloom->npages; page += CHUNK_PAGES)
		write_pages(bloom->fd, bits + page * PAGE, page, CHUNK_PAGES);
	free(bits);
}

/* Apply sorted positions in one sweep. */
static void
elevator_sweep(Bloom *bloom, uint64_t *positions, uint64_t n, uint8_t *buffer)
{
	uint64_t	at = 0;

	lsm_digest_sort(positions, n);
	for (uint64_t page = 0; page < bloom->npages; page += CHUNK_PAGES)
	{
		uint64_t	end = (page + CHUNK_PAGES) * PAGE * 8;
		uint64_t	base = page * PAGE * 8;

		if (at == n || positions[at] >= end)
			continue;
		read_pages(bloom->fd, buffer, page, CHUNK_PAGES);
		for (; at < n && positions[at] < end; at++)
			buffer[(positions[at] - base) / 8] |= (uint8_t) (1 << (positions[at] % 8));
		write_pages(bloom->fd, buffer, page, CHUNK_PAGES);
	}
}

/* ---- the cascade ---- */

#define LEVELS	24

typedef struct Cascade
{
	uint64_t	total;
	double		bits_per_key;
	LsmQuotient memory;
	uint64_t	memory_max;
	int			fds[LEVELS];
	LsmFilter	levels[LEVELS]; /* nkeys 0: empty */
	uint8_t    *buffers[LEVELS + 1];
	int			nlevels;
	double		longest_merge_s;
} Cascade;

static bool
cascade_source(void *arg, uint64_t *fingerprint)
{
	return lsm_stream_merge_next(arg, fingerprint);
}

/* Merge memory and the levels before the first empty one into that. */
static void
cascade_merge(Cascade *cascade)
{
	LsmFilterParams params = {LSM_FILTER_CASCADE, cascade->bits_per_key, cascade->total};
	LsmFilterStream work[LEVELS + 1];
	LsmStreamMerge merge;
	Sequential	in[LEVELS];
	Sequential	out = {0};
	LsmFilter	output;
	uint64_t	n = cascade->memory.count;
	int			to = 0;
	double		start = now_s();

	while (cascade->levels[to].nkeys > 0)
		n += cascade->levels[to++].nkeys;
	if (to >= LEVELS || !lsm_filter_plan(&params, n, &output) ||
		lsm_filter_fingerprint_bits(&output) > cascade->memory.fingerprint_bits)
	{
		fprintf(stderr, "level %d cannot be planned\n", to);
		exit(1);
	}
	lsm_stream_merge_open(&merge, work, lsm_filter_fingerprint_bits(&output));
	if (!lsm_stream_merge_add_quotient(&merge, &cascade->memory))
		exit(1);
	for (int i = 0; i < to; i++)
	{
		in[i] = (Sequential) {cascade->fds[i], cascade->levels[i].nblocks, 0, 0, cascade->buffers[i]};
		if (!lsm_stream_merge_add_pages(&merge, &cascade->levels[i], next_page_in, &in[i]))
			exit(1);
	}
	out.fd = open_file("cascade");
	out.npages = output.nblocks;
	out.buffer = cascade->buffers[LEVELS];
	memset(out.buffer, 0, CHUNK_PAGES * PAGE);
	if (!lsm_cascade_write_pages(&output, cascade_source, &merge, next_page_out, &out) ||
		merge.damaged)
		exit(1);
	flush_out(&out);

	for (int i = 0; i < to; i++)
	{
		close(cascade->fds[i]);
		cascade->levels[i].nkeys = 0;
	}
	cascade->fds[to] = out.fd;
	cascade->levels[to] = output;
	if (to >= cascade->nlevels)
		cascade->nlevels = to + 1;
	lsm_quotient_init(&cascade->memory, lsm_log2(cascade->memory.nslots),
					  cascade->memory.remainder_bits, cascade->memory.data);
	start = now_s() - start;
	if (start > cascade->longest_merge_s)
		cascade->longest_merge_s = start;
}

static bool
cascade_lookup(const Cascade *cascade, LsmDigest digest, uint8_t *page)
{
	if (lsm_quotient_lookup(&cascade->memory, digest))
		return true;
	for (int i = 0; i < cascade->nlevels; i++)
	{
		const LsmFilter *level = &cascade->levels[i];
		bool		maybe;

		if (level->nkeys == 0)
			continue;
		/* pages without a header before them */
		read_pages(cascade->fds[i], page, lsm_filter_page_offset(level, digest) / PAGE - 1, 1);
		if (lsm_filter_probe_page(level, page, digest, &maybe) != LSM_FILTER_OK)
			exit(1);
		if (maybe)
			return true;
	}
	return false;
}

/* The largest filter of 2^q slots in the memory, with fingerprints for all keys. */
static void
cascade_init(Cascade *cascade, double bits_per_key, uint64_t n, uint64_t memory_bytes)
{
	uint32_t	p = lsm_fingerprint_bits(n, bits_per_key, 0);
	uint32_t	q = 30;

	memset(cascade, 0, sizeof(*cascade));
	while (lsm_quotient_size(q, p - q) == 0 || lsm_quotient_size(q, p - q) > memory_bytes)
		q--;
	cascade->total = n;
	cascade->bits_per_key = bits_per_key;
	if (!lsm_quotient_init(&cascade->memory, q, p - q,
						   alloc_aligned_or_die(lsm_quotient_size(q, p - q))))
		exit(1);
	cascade->memory_max = cascade->memory.nslots / 10 * 9;
	for (int i = 0; i <= LEVELS; i++)
		cascade->buffers[i] = alloc_aligned_or_die(CHUNK_PAGES * PAGE);
}

/* ---- the table ---- */

static void
report(const char *name, uint64_t inserted, double insert_s, double insert_cpu_s, uint64_t insert_read,
	   uint64_t insert_written, double lookup_s, uint64_t lookup_read, uint64_t positives,
	   const char *note)
{
	printf("| %s | %.0f | %.2f | %.4f | %.4f | %.2f | %.0f | %.1e | %s |\n", name,
		   (double) inserted / insert_s, insert_cpu_s * 1e6 / (double) inserted, (double) insert_read / (double) inserted,
		   (double) insert_written / (double) inserted,
		   (double) lookup_read / LOOKUPS, LOOKUPS / lookup_s,
		   (double) positives / LOOKUPS, note);
	fflush(stdout);
}

static LsmDigest
absent(uint64_t i)
{
	return digest_of((UINT64_C(1) << 40) + i);
}

static void
bloom_lookups(Bloom *bloom, double *seconds, uint64_t *read, uint64_t *positives)
{
	/* the cache in the state that lookups leave it in */
	for (uint64_t i = 0; i < bloom->nslots; i++)
		sink += bloom_lookup(bloom, absent(LOOKUPS + i));
	*read = pages_read;
	*positives = 0;
	*seconds = now_s();
	for (uint64_t i = 0; i < LOOKUPS; i++)
		*positives += bloom_lookup(bloom, absent(i));
	*seconds = now_s() - *seconds;
	*read = pages_read - *read;
}

static void
run_plain(double bits_per_key, uint64_t n, uint64_t memory_bytes)
{
	Bloom		bloom;
	uint64_t	inserted = 0;
	uint64_t	read;
	uint64_t	written;
	uint64_t	lookup_read;
	uint64_t	positives;
	double		start;
	double		insert_s;
	double		insert_cpu_s;
	double		lookup_s;
	char		note[100];

	bloom_init(&bloom, "plain", bits_per_key, n);
	bloom_preload(&bloom, n / 2);
	bloom_cache_init(&bloom, memory_bytes);
	/* until the cache is full of changed pages */
	for (uint64_t i = 0; i < bloom.nslots; i++)
		bloom_insert_plain(&bloom, digest_of(n / 2 + inserted++));
	inserted = 0;
	read = pages_read;
	written = pages_written;
	start = now_s();
	insert_cpu_s = cpu_s();
	while (now_s() - start < SAMPLE_SECONDS)
		bloom_insert_plain(&bloom, digest_of(n / 2 + bloom.nslots + inserted++));
	insert_s = now_s() - start;
	insert_cpu_s = cpu_s() - insert_cpu_s;
	read = pages_read - read;
	written = pages_written - written;
	/* the rest, without measuring */
	bloom_preload(&bloom, n);
	memset(bloom.where, 0xff, bloom.npages * sizeof(uint32_t));
	bloom.newest = bloom.oldest = NO_SLOT;
	bloom.nused = 0;
	bloom_lookups(&bloom, &lookup_s, &lookup_read, &positives);
	snprintf(note, sizeof(note), "inserts: %d s into a half full filter", SAMPLE_SECONDS);
	report("plain Bloom", inserted, insert_s, insert_cpu_s, read, written, lookup_s, lookup_read, positives, note);
	close(bloom.fd);
}

static void
run_elevator(double bits_per_key, uint64_t n, uint64_t memory_bytes)
{
	Bloom		bloom;
	uint64_t	most = memory_bytes / sizeof(uint64_t);
	uint64_t   *positions = alloc_aligned_or_die(memory_bytes);
	uint8_t    *buffer = alloc_aligned_or_die(CHUNK_PAGES * PAGE);
	uint64_t	npositions = 0;
	uint64_t	read;
	uint64_t	written;
	uint64_t	lookup_read;
	uint64_t	positives;
	uint64_t	sweeps = 0;
	double		insert_s;
	double		insert_cpu_s;
	double		lookup_s;
	char		note[100];

	bloom_init(&bloom, "elevator", bits_per_key, n);
	read = pages_read;
	written = pages_written;
	insert_s = now_s();
	insert_cpu_s = cpu_s();
	for (uint64_t i = 0; i < n; i++)
	{
		uint64_t	x = digest_of(i);

		if (npositions + bloom.shape.probes > most)
		{
			elevator_sweep(&bloom, positions, npositions, buffer);
			npositions = 0;
			sweeps++;
		}
		for (uint32_t j = 0; j < bloom.shape.probes; j++)
		{
			positions[npositions++] = lsm_fast_range(x, bloom.shape.nbits);
			x *= MULTIPLIER;
		}
	}
	elevator_sweep(&bloom, positions, npositions, buffer);
	insert_s = now_s() - insert_s;
	insert_cpu_s = cpu_s() - insert_cpu_s;
	read = pages_read - read;
	written = pages_written - written;
	free(positions);
	bloom_cache_init(&bloom, memory_bytes);
	bloom_lookups(&bloom, &lookup_s, &lookup_read, &positives);
	snprintf(note, sizeof(note), "%" PRIu64 " sweeps; lookups with M as a cache", sweeps + 1);
	report("elevator Bloom", n, insert_s, insert_cpu_s, read, written, lookup_s, lookup_read, positives, note);
	close(bloom.fd);
}

/* Pages per lookup of an absent key, by reading them. */
static double
cascade_pages(const Cascade *cascade, uint8_t *page)
{
	uint64_t	read = pages_read;

	for (uint64_t i = 0; i < LOOKUPS / 10; i++)
		sink += cascade_lookup(cascade, absent(i), page);
	return (double) (pages_read - read) * 10 / LOOKUPS;
}

static int
levels_used(const Cascade *cascade)
{
	int			used = 0;

	for (int i = 0; i < cascade->nlevels; i++)
		used += cascade->levels[i].nkeys > 0;
	return used;
}

static void
run_cascade(double bits_per_key, uint64_t n, uint64_t memory_bytes)
{
	Cascade		cascade;
	uint8_t    *page = alloc_aligned_or_die(PAGE);
	uint64_t	read;
	uint64_t	written;
	uint64_t	lookup_read;
	uint64_t	positives = 0;
	uint64_t	lost = 0;
	int			most_levels = 0;
	double		most_pages = 0;
	double		paused = 0;
	double		paused_cpu = 0;
	uint64_t	bytes = 0;
	double		insert_s;
	double		insert_cpu_s;
	double		lookup_s;
	char		note[300];

	cascade_init(&cascade, bits_per_key, n, memory_bytes);
	read = pages_read;
	written = pages_written;
	insert_s = now_s();
	insert_cpu_s = cpu_s();
	for (uint64_t i = 0; i < n; i++)
	{
		if (cascade.memory.count >= cascade.memory_max)
		{
			double		pause = now_s();
			double		pause_cpu = cpu_s();
			uint64_t	counted = pages_read;

			if (levels_used(&cascade) > most_levels)
			{
				most_levels = levels_used(&cascade);
				most_pages = cascade_pages(&cascade, page);
			}
			pages_read = counted;
			paused += now_s() - pause;
			paused_cpu += cpu_s() - pause_cpu;
			cascade_merge(&cascade);
		}
		if (!lsm_quotient_insert(&cascade.memory, digest_of(i)))
			exit(1);
	}
	insert_s = now_s() - insert_s - paused;
	insert_cpu_s = cpu_s() - insert_cpu_s - paused_cpu;
	read = pages_read - read;
	written = pages_written - written;
	for (int i = 0; i < cascade.nlevels; i++)
	{
		if (cascade.levels[i].nkeys > 0)
			bytes += cascade.levels[i].nblocks * PAGE;
	}
	lookup_read = pages_read;
	lookup_s = now_s();
	for (uint64_t i = 0; i < LOOKUPS; i++)
		positives += cascade_lookup(&cascade, absent(i), page);
	lookup_s = now_s() - lookup_s;
	lookup_read = pages_read - lookup_read;
	for (uint64_t i = 0; i < LOOKUPS; i++)
		lost += !cascade_lookup(&cascade, digest_of(i * 7919 % n), page);
	if (lost > 0)
	{
		fprintf(stderr, "cascade filter lost %" PRIu64 " keys\n", lost);
		exit(1);
	}
	snprintf(note, sizeof(note), "%d level(s) on storage (%.1f MB) and memory (%.1f MB, load %.2f); with %d levels %.2f page reads; longest merge %.2f s",
			 levels_used(&cascade), (double) bytes / 1e6,
			 (double) lsm_quotient_size(lsm_log2(cascade.memory.nslots), cascade.memory.remainder_bits) / 1e6,
			 (double) cascade.memory.count / (double) cascade.memory.nslots,
			 most_levels, most_pages, cascade.longest_merge_s);
	report("cascade", n, insert_s, insert_cpu_s, read, written, lookup_s, lookup_read, positives, note);
}

/* ---- how to read one page ---- */

/*
 * A page of a file that the operating system has cached: copied by pread(), touched in a
 * mapping, touched in a mapping and given back.
 */
static void
run_page_reads(void)
{
	enum
	{
		FILE_PAGES = 16384,
		READS = 200000
	};
	char		path[4096];
	uint8_t    *page = alloc_aligned_or_die(PAGE);
	uint64_t	state = 1;
	double		seconds[3];
	uint8_t    *map;
	int			fd;

	snprintf(path, sizeof(path), "%s/pages", directory);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		die(path);
	unlink(path);
	for (int i = 0; i < FILE_PAGES; i++)
		if (write(fd, page, PAGE) != PAGE)
			die("write");
	map = mmap(NULL, (size_t) FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || madvise(map, (size_t) FILE_PAGES * PAGE, MADV_RANDOM) != 0)
		die("mmap");
	for (int how = 0; how < 3; how++)
	{
		seconds[how] = cpu_s();
		for (int i = 0; i < READS; i++)
		{
			uint64_t	no;
			const uint8_t *at = page;

			state = state * MULTIPLIER + 1;
			no = state >> 40 & (FILE_PAGES - 1);
			if (how == 0)
			{
				if (pread(fd, page, PAGE, (off_t) (no * PAGE)) != PAGE)
					die("read");
			}
			else
				at = map + no * PAGE;
			/* all of it is looked at: the checksum */
			sink += lsm_digest_key(at, PAGE);
			if (how == 1 && madvise(map + no * PAGE, PAGE, MADV_DONTNEED) != 0)
				die("madvise");
		}
		seconds[how] = (cpu_s() - seconds[how]) * 1e9 / READS;
	}
	printf("\n## One page of a cached file with its checksum, ns of CPU: pread %.0f; mapping, page dropped again %.0f; mapping that becomes resident (no longer a filter on storage) %.0f\n",
		   seconds[0], seconds[1], seconds[2]);
	munmap(map, (size_t) FILE_PAGES * PAGE);
	close(fd);
}

int
main(int argc, char **argv)
{
	uint64_t	n = argc > 2 ? strtoull(argv[2], NULL, 10) : 14 * 1000 * 1000;
	double		cascade_bits = 15.6;	/* r = 11 */
	uint32_t	p = lsm_fingerprint_bits(n, cascade_bits, 0);
	double		fpr = lsm_quotient_expected_fpr(n, p);
	double		bloom_bits = -log2(fpr) / log(2);
	uint64_t	memory_bytes = (uint64_t) ((double) n * bloom_bits / 8 / 4);

	if (argc < 2 || n < 100 * 1000)
	{
		fprintf(stderr, "usage: filter_cascade DIRECTORY [keys, from 100000]\n");
		return 2;
	}
	directory = argv[1];
	printf("## Filters larger than memory: %" PRIu64 " keys, FPR %.1e, Bloom filter %.1f MB, memory M = %.1f MB; O_DIRECT\n",
		   n, fpr, (double) n * bloom_bits / 8e6, (double) memory_bytes / 1e6);
	printf("| filter | inserts/s | CPU us per insert | pages read per insert | pages written per insert | page reads per negative lookup | negative lookups/s | FPR | |\n|---|---|---|---|---|---|---|---|---|\n");
	run_cascade(cascade_bits, n, memory_bytes);
	run_elevator(bloom_bits, n, memory_bytes);
	run_plain(bloom_bits, n, memory_bytes);
	run_page_reads();
	return sink == 42 ? 3 : 0;
}
