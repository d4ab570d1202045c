/*-------------------------------------------------------------------------
 *
 * manifest_cases.h
 *	  The commands of cases/manifest, for manifest_test.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MANIFEST_CASES_H
#define MANIFEST_CASES_H

static int
level_of(const char *word)
{
	return atoi(word + 1);
}

/* Blocks of the chain in order. */
static int
chain_blocks(BlockNumber *blocks)
{
	BlockNumber block = meta_page()->manifest_root;
	int			n = 0;

	for (; block != InvalidBlockNumber; n++)
	{
		blocks[n] = block;
		block = lsm_page_opaque((Page) &fork_pages[block])->next;
	}
	return n;
}

static void
say_chain(void)
{
	const LsmMetaPage *meta = meta_page();

	say("version %llu, list %llu, %u files, pages", (unsigned long long) meta->version_no,
		(unsigned long long) meta->manifest_id, meta->manifest_files);
	if (meta->manifest_root == InvalidBlockNumber)
		say(" none");
	else
	{
		BlockNumber blocks[MAX_PAGES];
		int			n = chain_blocks(blocks);

		for (int i = 0; i < n; i++)
			say(" %u", blocks[i]);
	}
	say("\n");
}

static void
case_edit(Case *c)
{
	static LsmFileMeta added[MAX_MODEL];
	static uint64 removed[MAX_MODEL];
	LsmEdit		edit = {.added = added,.removed = removed};
	char	   *line;

	while ((line = case_line(c)) != NULL)
	{
		char	   *what = next_word(&line);
		char	   *first = next_word(&line);
		char	   *second = next_word(&line);
		char	   *third = next_word(&line);
		uint64		number = first != NULL ? strtoull(first, NULL, 10) : 0;

		if (strcmp(what, "add") == 0)
			make_file(&added[edit.nadded++], number, level_of(second),
					  third != NULL ? strtoull(third, NULL, 10) : 0);
		else if (strcmp(what, "many") == 0)
		{
			for (uint64 i = number; i <= strtoull(second, NULL, 10); i++)
				make_file(&added[edit.nadded++], i, level_of(third), 1);
		}
		else if (strcmp(what, "gone") == 0)
		{
			for (int i = 0; i < nreader; i++)
			{
				if (reader[i].number >= number && reader[i].number <= strtoull(second, NULL, 10))
					removed[edit.nremoved++] = reader[i].number;
			}
		}
		else if (strcmp(what, "generation") == 0)
			edit.flushed_generation = number;
		else if (strcmp(what, "rewrite") == 0)
			edit.rewrite = true;
		else
		{
			removed[edit.nremoved++] = number;
			if (strcmp(what, "move") == 0)
				make_file(&added[edit.nadded++], number, level_of(second), 0);
		}
	}
	room_left = strcmp(c->words, "full") == 0 ? 0 : MAX_PAGES - npages;
	if (!do_edit(&edit))
		say("ERROR: %s\n", error_text);
	say_chain();
}

static void
say_files(LsmFileMeta *files, int n)
{
	qsort(files, n, sizeof(LsmFileMeta), compare_metas);
	for (int i = 0; i < n; i++)
	{
		int			last = i;
		LsmFileMeta wanted;

		make_file(&wanted, files[i].number, files[i].level, files[i].run);
		if (memcmp(&wanted, &files[i], sizeof(wanted)) != 0)
			say(" not as it was:");
		while (last + 1 < n && files[last + 1].number == files[last].number + 1 &&
			   files[last + 1].level == files[i].level && files[last + 1].run == files[i].run)
			last++;
		say(" %llu", (unsigned long long) files[i].number);
		if (last > i)
			say("-%llu", (unsigned long long) files[last].number);
		say(":L%d", files[i].level);
		if (files[i].level == 0)
			say("/%llu", (unsigned long long) files[i].run);
		i = last;
	}
}

static void
case_read(void)
{
	LsmFileMeta *files;
	int			n;

	if (!read_all(&files, &n))
	{
		say("ERROR: %s\n", error_text);
		return;
	}
	say("files");
	say_files(files, n);
	say("\n");
}

static void
case_look(void)
{
	LsmManifestChange change;

	if (!look(&change))
	{
		say("ERROR: %s\n", error_text);
		return;
	}
	say(change.whole ? "all:" : "came:");
	say_files(change.files, change.nfiles);
	if (!change.whole)
	{
		say("; went:");
		for (int i = 0; i < change.nremoved; i++)
			say(" %llu", (unsigned long long) change.removed[i]);
	}
	say("\n");
}

static void
case_version(void)
{
	LsmVersion *old = tree.version != NULL ? lsm_version_pin(tree.version) : NULL;
	LsmVersion *version = refresh();

	if (version == NULL)
		say("ERROR: %s\n", error_text);
	for (int i = 0; version != NULL && i < version->nruns; i++)
	{
		const LsmRun *run = &version->runs[i];
		bool		same = false;

		for (int j = 0; old != NULL && j < old->nruns; j++)
			same |= old->runs[j].body == run->body;
		say("L%d", run->level);
		if (run->level == 0)
			say("/%llu", (unsigned long long) run->run);
		say("%s, %llu entries:", same ? " as before" : "", (unsigned long long) run->entries);
		for (int j = 0; j < run->nfiles; j++)
			say(" %llu", (unsigned long long) run->files[j].number);
		say("\n");
	}
	if (version != NULL)
		say("%d files, %d runs of level 0, deepest level %d\n", version->nfiles,
			version->level0_runs, version->deepest);
	if (old != NULL)
		lsm_version_unpin(old);
}

static void
case_damage(Case *c)
{
	BlockNumber blocks[MAX_PAGES];
	int			nth;
	int			offset;
	char	   *byte;

	(void) chain_blocks(blocks);
	sscanf(c->words, "%d %d", &nth, &offset);
	byte = &fork_pages[blocks[nth]].data[offset];
	*byte ^= 0x10;
	case_read();
	*byte ^= 0x10;
}

/* Behind the chain, with a checksum that is right, unless it is to be short. */
static void
case_record(Case *c)
{
	LsmMetaPage *meta = meta_page();
	Page		page = (Page) &fork_pages[meta->manifest_tail];
	PageHeader	header = (PageHeader) page;
	LocationIndex lower = header->pd_lower;
	uint32		nfiles = meta->manifest_files;
	LsmManifestRecord record = {0};
	char	   *line;
	char	   *start = (char *) page + lower;
	char	   *at = start + sizeof(record);

	meta->manifest_files = case_number(c, "files", nfiles);
	seal_meta();
	while ((line = case_line(c)) != NULL)
	{
		char	   *word;

		while ((word = next_word(&line)) != NULL)
			*at++ = (char) strtol(word, NULL, 16);
	}
	record.bytes = at - start - sizeof(record) + case_number(c, "more", 0);
	INIT_CRC32C(record.crc);
	COMP_CRC32C(record.crc, start + sizeof(record), at - start - sizeof(record));
	FIN_CRC32C(record.crc);
	memcpy(start, &record, sizeof(record));
	header->pd_lower = at - (char *) page;
	case_read();
	header->pd_lower = lower;
	meta->manifest_files = nfiles;
	seal_meta();
}

static void
case_pages(void)
{
	for (BlockNumber i = 1; i < npages; i++)
	{
		Page		page = (Page) &fork_pages[i];
		LsmPageOpaque *opaque = PageIsNew(page) ? NULL : lsm_page_opaque(page);
		bool		free = lsm_page_is_free(page, meta_page()->flushed_generation,
											pg_atomic_read_u64(&ctl.files.manifest_id),
											pg_atomic_read_u64(&ctl.files.manifest_pending));

		say("%s", opaque == NULL ? "f" : opaque->type == LSM_PAGE_LOG ? (free ? "f" : "l") :
			opaque->owner == meta_page()->manifest_id ? "m" : free ? "o" : "p");
	}
	say("\n");
}

static void
case_log(Case *c)
{
	uint64		generation;
	int			n;

	sscanf(c->words, "%" SCNu64 " %d", &generation, &n);
	for (int i = 0; i < n; i++)
	{
		Buffer		buffer = lsm_page_allocate(&tree);

		say("%s%u", i > 0 ? " " : "", BufferGetBlockNumber(buffer));
		lsm_page_init(BufferGetPage(buffer), LSM_PAGE_LOG, generation, 0, InvalidBlockNumber);
		UnlockReleaseBuffer(buffer);
	}
	say("\n");
}

static void
case_numbers(Case *c)
{
	lsm_manifest_reserve(&tree, atoi(c->words));
	pg_atomic_fetch_add_u64(&ctl.files.next_file, atoi(c->words));
	say("next %llu, below %llu\n", (unsigned long long) pg_atomic_read_u64(&ctl.files.next_file),
		(unsigned long long) meta_page()->next_file);
}

static void
run_manifest_case(Case *c)
{
	if (strcmp(c->command, "manifest") == 0)
		new_manifest();
	else if (strcmp(c->command, "edit") == 0)
		case_edit(c);
	else if (strcmp(c->command, "read") == 0)
		case_read();
	else if (strcmp(c->command, "look") == 0)
		case_look();
	else if (strcmp(c->command, "version") == 0)
		case_version();
	else if (strcmp(c->command, "damage") == 0)
		case_damage(c);
	else if (strcmp(c->command, "record") == 0)
		case_record(c);
	else if (strcmp(c->command, "pages") == 0)
		case_pages();
	else if (strcmp(c->command, "log") == 0)
		case_log(c);
	else if (strcmp(c->command, "numbers") == 0)
		case_numbers(c);
	else
		elog(ERROR, "unknown command %s", c->command);
	MemoryContextReset(work);
}

#endif							/* MANIFEST_CASES_H */
