/*-------------------------------------------------------------------------
 *
 * default_index.c
 *	  lsm.default_index: what CREATE INDEX without USING makes on lsm tables.
 *
 * The grammar puts "btree" where a statement names no access method, so the
 * parse tree does not tell whether the user did.  The statement's text does:
 * between the table and the list of columns there is USING, a reserved word,
 * or there is not.  It is read by PostgreSQL's own scanner.
 *
 * Only statements whose text is at hand are looked at: those of clients,
 * functions and scripts.  Parts of other statements (CREATE SCHEMA, CREATE
 * TABLE ... LIKE) keep what they have.  So does an index that lsm_index would
 * refuse, or whose order it would lose: nobody has asked for that.  Dumps write
 * USING always, and are restored as they were.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/scanner.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "am/am.h"
#include "ddl/ddl.h"
#include "index/index.h"

int			lsm_default_index = LSM_DEFAULT_INDEX_BTREE;

static int
keyword_token(const char *word)
{
	return ScanKeywordTokens[ScanKeywordLookup(word, &ScanKeywords)];
}

/* The part of the text that is this statement. */
static char *
statement_text(const PlannedStmt *pstmt, const char *query_string)
{
	int			start = Max(pstmt->stmt_location, 0);

	return pstmt->stmt_len > 0 ?
		pnstrdup(query_string + start, pstmt->stmt_len) : pstrdup(query_string + start);
}

/*
 * Is there USING before the parenthesis that columns are in (that of ONLY (t)
 * may come first)?  REQUIRES: the text of a CREATE INDEX that has been parsed.
 */
static bool
names_access_method(const char *text)
{
	core_yy_extra_type extra;
	core_YYSTYPE value;
	YYLTYPE		location;
	core_yyscan_t scanner = scanner_init(text, &extra, &ScanKeywords, ScanKeywordTokens);
	int			using = keyword_token("using");
	int			only = keyword_token("only");
	int			token = 0;
	bool		names_table;

	do
	{
		names_table = token == only;
		token = core_yylex(&value, &location, scanner);
	} while (token != 0 && token != using && (token != '(' || names_table));
	scanner_finish(scanner);

	/* a text without columns is none that we understand: leave it alone */
	return token != '(';
}

/* Type and collation of an index column as it is written; false: unknown. */
static bool
element_type(Relation table, const IndexElem *element, Oid *type, Oid *collation)
{
	if (element->name != NULL)
	{
		AttrNumber	attnum = get_attnum(RelationGetRelid(table), element->name);
		int32		typmod;

		if (attnum <= 0)
			return false;
		get_atttypetypmodcoll(RelationGetRelid(table), attnum, type, &typmod, collation);
	}
	else
	{
		ParseState *pstate = make_parsestate(NULL);
		ParseNamespaceItem *item = addRangeTableEntryForRelation(pstate, table, AccessShareLock,
																 NULL, false, true);
		Node	   *expression;

		addNSItemToQuery(pstate, item, false, true, true);
		expression = transformExpr(pstate, copyObject(element->expr),
								   EXPR_KIND_INDEX_EXPRESSION);
		assign_expr_collations(pstate, expression);
		*type = exprType(expression);
		*collation = exprCollation(expression);
		free_parsestate(pstate);
	}
	if (element->collation != NIL)
		*collation = get_collation_oid(element->collation, true);
	return true;
}

/* Can lsm_index serve the index, in its order? */
static bool
columns_fit(Relation table, const IndexStmt *stmt)
{
	ListCell   *lc;

	if (stmt->excludeOpNames != NIL || !lsm_options_fit(stmt->options))
		return false;
	foreach(lc, stmt->indexParams)
	{
		IndexElem  *element = lfirst_node(IndexElem, lc);
		Oid			type;
		Oid			collation;

		if (element->opclassopts != NIL || !element_type(table, element, &type, &collation))
			return false;
		if (element->opclass != NIL)
		{
			Oid			opclass = get_opclass_oid(lsm_index_am_oid(), element->opclass, true);

			if (!OidIsValid(opclass) || !lsm_opclass_fits(opclass, type, collation, true))
				return false;
		}
		else if (!lsm_type_fits(type, collation, true))
			return false;
	}
	return true;
}

/*
 * Is it for us?  Indexes of partitioned tables and of their partitions are
 * attached to each other only if they have the same access method: the tree
 * decides, as for keys.
 */
static bool
table_fits(Relation table, const IndexStmt *stmt)
{
	bool		partitioned = table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;

	if (partitioned && stmt->unique && !LSM_CORE_TAKES_ANY_KEY)
		return false;
	if (partitioned || table->rd_rel->relispartition)
		return lsm_partitions_are_lsm(RelationGetRelid(table), table->rd_rel->relam,
									  lsm_table_am_oid());
	return (table->rd_rel->relkind == RELKIND_RELATION ||
			table->rd_rel->relkind == RELKIND_MATVIEW) && lsm_relation_is_table(table);
}

PlannedStmt *
lsm_default_index_before(PlannedStmt *pstmt, const char *query_string, bool part_of_other)
{
	IndexStmt  *stmt = (IndexStmt *) pstmt->utilityStmt;
	Oid			relid;
	Relation	table;
	bool		fits;

	if (lsm_default_index != LSM_DEFAULT_INDEX_LSM || !IsA(stmt, IndexStmt) || part_of_other ||
		stmt->isconstraint || stmt->transformed || !OidIsValid(lsm_index_am_oid()) ||
		stmt->accessMethod == NULL || strcmp(stmt->accessMethod, DEFAULT_INDEX_TYPE) != 0 ||
		names_access_method(statement_text(pstmt, query_string)))
		return pstmt;

	/* as core will do: rights first, then the lock that the statement takes */
	relid = RangeVarGetRelidExtended(stmt->relation,
									 stmt->concurrent ? ShareUpdateExclusiveLock : ShareLock,
									 RVR_MISSING_OK, RangeVarCallbackOwnsRelation, NULL);
	if (!OidIsValid(relid))
		return pstmt;
	table = relation_open(relid, NoLock);
	fits = table_fits(table, stmt) && columns_fit(table, stmt);
	relation_close(table, NoLock);
	if (!fits)
		return pstmt;
	pstmt = copyObject(pstmt);
	((IndexStmt *) pstmt->utilityStmt)->accessMethod = pstrdup(LSM_INDEX_AM_NAME);
	return pstmt;
}
