/*-------------------------------------------------------------------------
 *
 * versions_cases.h
 *	  Cases of what becomes of a row's values (cases/versions), for
 *	  versions_test.c.
 *
 *	merge			lines of values, newest first: what they are together
 *	fate [bottom=1] [freeze=1]
 *		for each line, a value: what a job makes of it
 *	settle			lines of values in no order: what is left of the row
 *	min-xid			for each line, a value: the oldest xid in it
 *
 * A value is a list of elements, newest first: a tag, a version's number, its
 * maker, perhaps "/" and who ended it, and "*" and a locker, each of which is
 * a letter and perhaps a digit.
 *
 *	tags	+ VERSION, = PUT, ~ PARTIAL; - alone is a DELETE
 *	who		o committed, before the horizon; n committed since; a rolled back,
 *			before the horizon; b rolled back since; r runs; k: the row is killed
 *	behind who made it:	^ the header says that it has committed; ! it is frozen;
 *			? it is, and the xmin was not kept, as old builds wrote it
 *	behind who ended it: ^ the header says that it has committed
 *
 * What is said of a value: dropped, kept, or the new one; then "gone" if it was a
 * row, "dying" if a later job is to look at it again, and the xid that standbys
 * are told.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VERSIONS_CASES_H
#define VERSIONS_CASES_H

#include "cases.h"

static const char letters[] = "oanbr";

#define XIDS_PER_LETTER		10
#define CASE_HORIZON		(2 * XIDS_PER_LETTER)

static TransactionId
case_xid(const char *who)
{
	const char *letter = strchr(letters, who[0]);

	Assert(letter != NULL);
	return xid_of((letter - letters) * XIDS_PER_LETTER + (isdigit(who[1]) ? who[1] - '0' : 0));
}

/* The letter and digit of an xid */
static const char *
case_who(TransactionId xid)
{
	static char text[4][3];
	static int	nth = 0;
	char	   *out = text[nth++ % 4];
	int			number = number_of(xid);

	sprintf(out, "%c%c", letters[number / XIDS_PER_LETTER],
			number % XIDS_PER_LETTER == 0 ? '\0' : '0' + number % XIDS_PER_LETTER);
	return out;
}

static void
begin_cases(void)
{
	begin_world();
	viewer = STANDBY;
	for (const char *letter = letters; *letter != '\0'; letter++)
	{
		for (int i = 0; i < XIDS_PER_LETTER; i++)
			xacts[nxacts++] = (Xact) {*letter == 'r' ? RUNNING :
				*letter == 'a' || *letter == 'b' ? ABORTED : COMMITTED, 0, -1};
	}
}

static void
parse_version_maker(const char *who, LsmRow *row)
{
	if (*who == 'k')
	{
		row->flags |= LSM_ROW_KILLED;
		return;
	}
	row->xmin = case_xid(who);
	who += 1 + (isdigit(who[1]) != 0);
	if (*who == '^')
		row->flags |= LSM_ROW_XMIN_COMMITTED;
	if (*who == '!' || *who == '?')
	{
		lsm_row_freeze(row);
		if (*who == '?')
			row->frozen_xmin = InvalidTransactionId;
	}
}

/* "+5r1/n*r2" */
static void
parse_element(char *text, StringInfo value)
{
	char		lockers[MAX_MODEL];
	char		body[] = {1, 0, 'x', 'y', 'z', 'w'};
	StringInfoData element;
	LsmRow		row;
	char	   *at = text + 1;

	if (strcmp(text, "-") == 0)
	{
		lsm_chain_append(value, lsm_slice("\002", 1));
		return;
	}
	memset(&row, 0, sizeof(row));
	row.version = strtoul(at, &at, 10);
	row.open = text[0] == '+';
	row.lockers = lockers;
	/* bodies tell which one has been taken */
	body[2] = (char) row.version;
	body[3] = *at;
	row.body = body;
	row.body_bytes = sizeof(body);
	parse_version_maker(at, &row);
	for (at += strcspn(at, "/*"); *at != '\0'; at += 1 + strcspn(at + 1, "/*"))
	{
		if (*at == '/')
		{
			row.flags |= LSM_ROW_HAS_XMAX | LSM_ROW_KEYS_UPDATED |
				(at[1 + strcspn(at + 1, "^*")] == '^' ? LSM_ROW_XMAX_COMMITTED : 0);
			row.xmax = case_xid(at + 1);
		}
		else
			lsm_locker_put(lockers + row.nlockers++ * LSM_LOCKER_BYTES, case_xid(at + 1),
						   LockTupleShare);
	}
	initStringInfo(&element);
	lsm_row_encode(&element, &row, text[0] != '~');
	lsm_chain_append(value, lsm_slice(element.data, element.len));
	pfree(element.data);
}

static void
parse_value(char *line, StringInfo value)
{
	char	   *word;

	resetStringInfo(value);
	while ((word = next_word(&line)) != NULL)
		parse_element(word, value);
}

static void
say_element(LsmSlice element)
{
	LsmRow		row;

	if (is_delete(element))
	{
		say("-");
		return;
	}
	Assert(lsm_row_parse(element, &row) == NULL);
	say("%c", row.partial ? '~' : row.open ? '+' : '=');
	if (row.version > 0 || row.open)
		say("%u", row.version);
	if (row.flags & LSM_ROW_KILLED)
		say("k");
	else if (!TransactionIdIsNormal(lsm_row_shown_xmin(&row)))
		say("?");
	else
		say("%s%s", case_who(lsm_row_shown_xmin(&row)),
			row.flags & LSM_ROW_XMIN_FROZEN ? "!" : row.flags & LSM_ROW_XMIN_COMMITTED ? "^" : "");
	if (row.flags & LSM_ROW_HAS_XMAX)
		say("/%s%s", case_who(row.xmax), row.flags & LSM_ROW_XMAX_COMMITTED ? "^" : "");
	for (int i = 0; i < row.nlockers; i++)
	{
		TransactionId xid;
		LockTupleMode mode;

		lsm_row_locker(&row, i, &xid, &mode);
		say("*%s", case_who(xid));
	}
	/* another one's body */
	if (!row.partial && (row.body[2] != (char) row.version ||
						 (TransactionIdIsNormal(row.xmin) && row.body[3] != case_who(row.xmin)[0])))
		say(" with the body of %d%c", row.body[2], row.body[3]);
}

static void
say_value(LsmSlice value)
{
	LsmChain	chain;
	LsmSlice	element;
	bool		first = true;

	lsm_chain_begin(&chain, value);
	while (lsm_chain_next(&chain, &element))
	{
		say("%s", first ? "" : " ");
		say_element(element);
		first = false;
	}
	Assert(chain.at != NULL);
}

static void
say_fate(LsmSlice value, bool bottom, bool freeze)
{
	StoredValue written;
	int			kept = fates[LSM_FATE_KEEP];

	begin_job(xid_of(CASE_HORIZON), freeze ? xid_of(CASE_HORIZON) : InvalidTransactionId);
	written = job_entry(value, bottom);
	if (fates[LSM_FATE_KEEP] > kept)
		say("kept");
	else if (written.data == NULL)
		say("dropped");
	else
		say_value(stored_slice(&written));
	say("%s%s", job.gone ? ", gone" : "", job.dying ? ", dying" : "");
	if (TransactionIdIsValid(job.newest_removed_xid))
		say(", removed %s", case_who(job.newest_removed_xid));
	say("\n");
	free(written.data);
}

static void
run_versions_case(Case *c)
{
	StringInfoData value;
	StringInfoData folded;
	LsmFold		fold;
	char	   *line;

	begin_cases();
	initStringInfo(&value);
	initStringInfo(&folded);
	lsm_fold_begin(&fold, &lsm_table_kind_ops, &folded);
	fold.disordered = strcmp(c->command, "settle") == 0;
	while ((line = case_line(c)) != NULL)
	{
		parse_value(line, &value);
		if (strcmp(c->command, "fate") == 0)
			say_fate(lsm_slice(value.data, value.len), case_number(c, "bottom", 0),
					 case_number(c, "freeze", 0));
		else if (strcmp(c->command, "min-xid") == 0)
		{
			TransactionId xid = lsm_table_kind_ops.min_xid(lsm_slice(value.data, value.len));

			say("%s\n", TransactionIdIsValid(xid) ? case_who(xid) : "none");
		}
		else if (!lsm_fold_complete(&fold))
			(void) lsm_fold_add(&fold, lsm_slice(value.data, value.len));
	}
	if (fold.disordered && fold.tag != 0)
		settle_disordered(&fold);
	if (fold.tag != 0)
	{
		say_value(lsm_slice(folded.data, folded.len));
		say("\n");
	}
	pfree(value.data);
	pfree(folded.data);
}

#endif							/* VERSIONS_CASES_H */
