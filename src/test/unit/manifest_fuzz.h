/*-------------------------------------------------------------------------
 *
 * manifest_fuzz.h
 *	  Edits against a plain list, for manifest_test.c: readers that go on, readers
 *	  of all, versions, a disk that is full, other pages of the fork, damage.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MANIFEST_FUZZ_H
#define MANIFEST_FUZZ_H

static uint64_t seed;
static uint64 last_number;
static uint64 generation;
static const char *wrong;

static uint32
below(uint32 n)
{
	return (uint32) (random_next(&seed) % n);
}

static void
expect(bool good, const char *what)
{
	if (!good && wrong == NULL)
	{
		wrong = what;
		printf("# %s (%s)\n", what, error_text);
	}
}

static bool
same_lists(LsmFileMeta *a, int na, LsmFileMeta *b, int nb)
{
	qsort(a, na, sizeof(LsmFileMeta), compare_metas);
	qsort(b, nb, sizeof(LsmFileMeta), compare_metas);
	return na == nb && memcmp(a, b, na * sizeof(LsmFileMeta)) == 0;
}

/* Another edit cannot be made meanwhile, but VACUUM looks for free pages anew. */
static void
search_anew(void)
{
	if (below(2) == 0)
		lsm_page_restart_search(&tree);
}

static void
fuzz_edit(void)
{
	static LsmFileMeta added[MAX_MODEL];
	static uint64 removed[MAX_MODEL];
	LsmEdit		edit = {.added = added,.removed = removed};
	bool		large = below(40) == 0;
	int			nadd = large ? 100 + below(300) : below(6);
	bool		full = below(8) == 0;
	LsmMetaPage before = *meta_page();

	for (int i = 0; i < nmodel && edit.nremoved < 300; i++)
	{
		/* the list goes up and down */
		if (below(nmodel > 500 ? 2 : large ? 4 : nmodel > 100 ? 20 : 40) != 0)
			continue;
		removed[edit.nremoved++] = model[i].number;
		if (below(3) == 0)
			make_file(&added[edit.nadded++], model[i].number, 1 + below(LSM_MAX_LEVELS - 1), 0);
	}
	for (int i = 0; i < nadd; i++)
		make_file(&added[edit.nadded++], ++last_number, below(3), 1 + below(6));
	edit.rewrite = below(30) == 0;
	if (below(5) == 0)
		edit.flushed_generation = ++generation;
	room_left = full ? (int) below(3) : (int) (MAX_PAGES - npages);
	extend_hook = search_anew;
	if (do_edit(&edit))
	{
		expect(apply(model, &nmodel, removed, edit.nremoved, added, edit.nadded), "the test");
		expect(ctl.files.manifest_limit == 0 || meta_page()->manifest_pages <= ctl.files.manifest_limit,
			   "a chain that is too long");
		expect(meta_page()->version_no == before.version_no + 1, "edits are counted");
		expect(meta_page()->flushed_generation == Max(before.flushed_generation,
													  edit.flushed_generation),
			   "the generation");
	}
	else
	{
		/* numbers may have been reserved */
		before.next_file = meta_page()->next_file;
		before.crc = meta_page()->crc;
		expect(full && strcmp(error_text, "disk full") == 0, "an edit fails");
		expect(memcmp(&before, meta_page(), sizeof(before)) == 0, "an edit that fails changes nothing");
	}
	extend_hook = NULL;
	expect(meta_page()->manifest_files == (uint32) nmodel, "files are counted");
	expect(meta_page()->next_file > last_number || !meta_page()->version_no, "numbers are reserved");
	for (int i = 0; i < edit.nadded && full; i++)
		last_number = Max(last_number, added[i].number);
}

/* Of others, who take pages that are free. */
static void
fuzz_log(void)
{
	room_left = MAX_PAGES - npages;
	for (int n = below(4); n > 0; n--)
	{
		Buffer		buffer = lsm_page_allocate(&tree);

		lsm_page_init(BufferGetPage(buffer), LSM_PAGE_LOG, generation + 1, 0, InvalidBlockNumber);
		UnlockReleaseBuffer(buffer);
	}
}

static void
fuzz_read(void)
{
	LsmFileMeta *files;
	int			n;

	expect(read_all(&files, &n) && same_lists(files, n, model, nmodel), "all of the list");
}

static void
fuzz_look(void)
{
	LsmManifestChange change;

	expect(look(&change) && same_lists(reader, nreader, model, nmodel), "the list, read on");
}

/* Newest data first; a run's files by fences; nothing twice, nothing left out */
static void
fuzz_version(void)
{
	LsmVersion *version = refresh();
	LsmFileMeta *files = MemoryContextAlloc(work, (nmodel + 1) * sizeof(LsmFileMeta));
	int			n = 0;

	expect(version != NULL && version->nfiles == nmodel, "a version has all files");
	if (wrong != NULL)
		return;
	for (int i = 0; i < version->nruns; i++)
	{
		const LsmRun *run = &version->runs[i];

		expect(run->nfiles > 0 && run->first == n, "a run's place");
		expect(i == 0 || run->level > run[-1].level ||
			   (run->level == 0 && run[-1].level == 0 && run->run < run[-1].run),
			   "the order of runs");
		for (int j = 0; j < run->nfiles; j++)
		{
			LsmFile    *file = &run->files[j];

			expect(file->level == run->level && file->run == run->run, "a file's run");
			expect(j == 0 || lsm_slice_compare(file[-1].largest, file->smallest) < 0,
				   "the order of files");
			expect(lsm_version_find_file(version, file->number) == file &&
				   lsm_version_file(version, n) == file, "a file is found");
			memset(&files[n], 0, sizeof(LsmFileMeta));
			lsm_file_meta(file, &files[n++]);
		}
	}
	expect(lsm_version_find_file(version, last_number + 1) == NULL, "a file that is not there");
	expect(same_lists(files, n, model, nmodel), "the files of a version");
}

/* A byte of the chain: the list is as it was, or there is an error. */
static void
fuzz_damage(void)
{
	BlockNumber blocks[MAX_PAGES];
	int			nblocks = chain_blocks(blocks);
	LsmFileMeta *files;
	char	   *byte;
	char		before;
	int			n;

	if (nblocks == 0)
		return;
	byte = &fork_pages[blocks[below(nblocks)]].data[below(BLCKSZ)];
	before = *byte;
	*byte ^= (char) (1 << below(8));
	if (read_all(&files, &n))
		expect(same_lists(files, n, model, nmodel), "a damaged list is believed");
	*byte = before;
}

static void
fuzz_manifest(void)
{
	uint64_t	first = test_seed();
	int			rounds = getenv("LSM_UNIT_SHORT") != NULL ? 3 : 10;
	int			round;

	for (round = 0; round < rounds && wrong == NULL; round++)
	{
		seed = first + round;
		new_manifest();
		last_number = generation = 0;
		for (int i = 0; i < 500 && wrong == NULL; i++)
		{
			uint32		what = below(10);

			if (what < 4)
				fuzz_edit();
			else if (what < 5)
				fuzz_log();
			else if (what < 6)
				fuzz_read();
			else if (what < 8)
				fuzz_look();
			else if (what < 9)
				fuzz_version();
			else
				fuzz_damage();
			expect(nothing_held(), "pages are let go");
			MemoryContextReset(work);
		}
	}
	ok(wrong == NULL, "readers of the manifest have what a plain list has");
	if (wrong != NULL)
		printf("# LSM_SEED=%llu repeats it\n", (unsigned long long) first + round - 1);
}

#endif							/* MANIFEST_FUZZ_H */
