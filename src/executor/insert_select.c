/*-------------------------------------------------------------------------
 *
 * insert_select.c
 *	  INSERT of many rows, which are given to the table together.
 *
 * The executor inserts row by row: table, then indexes.  COPY collects rows
 * for table_multi_insert() and then inserts the index entries of each, which
 * lsm_index writes together, too (index/group_insert.c): fewer log records,
 * and what is looked at is fetched ahead.  Here an INSERT whose rows come from
 * a query or from a list of VALUES does what COPY does, under COPY's conditions:
 * nothing that is evaluated between two rows may look at the table.  So no
 * triggers, no RETURNING, no ON CONFLICT, no options to check, and no volatile
 * function, but for a few that are known to look at nothing.  Stable and
 * immutable ones see the table as it was when the statement began.
 *
 * With several unique indexes or exclusion constraints, index entries are
 * written row by row: who waits for another transaction's key in one index
 * must not hold later rows' keys in the index before.
 *
 * As with COPY, an error in the evaluation of a row may come before that of a
 * key, some rows before, that is there already.  The first rows go one by one,
 * so in short statements errors come in the rows' order.
 *
 * Volatility is a property of the query, which the executor does not have.  So
 * the planner's hook looks, and leaves a mark in the ModifyTable node: where a
 * foreign data wrapper would have its private data, which other tables do not
 * use.
 *
 * Locks: those that the executor takes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "am/am.h"
#include "am/row_notes.h"
#include "executor/hooks.h"

/*
 * A statement's first rows go one by one, the others together, at most so
 * many
 */
#define ONE_BY_ONE		16
#define BUFFER_ROWS		256
#define BUFFER_BYTES		65536

#define ROWS_MARK		"lsm: rows in batches"

bool		lsm_insert_batching = true;

typedef struct RowBuffer
{
	int			n;
	int			nslots;			/* that have been made */
	Size		bytes;
	TupleTableSlot *slots[BUFFER_ROWS];
} RowBuffer;

/* ======================================================================
 * Planner: may rows be collected?
 * ====================================================================== */

static bool
function_may_look(Oid function, void *context)
{
	switch (function)
	{
		case F_CLOCK_TIMESTAMP:
		case F_GEN_RANDOM_UUID:
		case F_NEXTVAL:
		case F_RANDOM_:
#ifdef F_UUIDV4					/* since PostgreSQL 18 */
		case F_UUIDV4:
		case F_UUIDV7_:
		case F_UUIDV7_INTERVAL:
#endif
			return false;
		default:
			return func_volatile(function) == PROVOLATILE_VOLATILE;
	}
}

static bool
within_holds_domain(Oid type, List **seen)
{
	bool		found = false;
	Oid			within;
	TupleDesc	desc;

	if (type < FirstNormalObjectId || list_member_oid(*seen, type))
		return false;
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	*seen = lappend_oid(*seen, type);
	switch (get_typtype(type))
	{
		case TYPTYPE_DOMAIN:
			return true;
		case TYPTYPE_COMPOSITE:
			desc = lookup_rowtype_tupdesc(type, -1);
			for (int i = 0; i < desc->natts && !found; i++)
				found = within_holds_domain(TupleDescAttr(desc, i)->atttypid, seen);
			ReleaseTupleDesc(desc);
			return found;
		case TYPTYPE_RANGE:
			return within_holds_domain(get_range_subtype(type), seen);
		case TYPTYPE_MULTIRANGE:
			return within_holds_domain(get_multirange_range(type), seen);
		default:
			within = get_element_type(type);
			return OidIsValid(within) && within_holds_domain(within, seen);
	}
}

/*
 * Are values of a domain among those of the type?  Whoever makes one checks
 * the domain's constraints, which no function's volatility tells of.  The
 * system's domains look at nothing.  Of a type of types that each have the one
 * below them twice, each is looked at once.
 */
static bool
holds_domain(Oid type)
{
	List	   *seen = NIL;
	bool		result = within_holds_domain(type, &seen);

	list_free(seen);
	return result;
}

static bool
any_holds_domain(const List *types)
{
	ListCell   *lc;

	foreach(lc, types)
	{
		if (holds_domain(lfirst_oid(lc)))
			return true;
	}
	return false;
}

/* May the node make a value of a domain? */
static bool
makes_domain(Node *node)
{
	if (LSM_IS_JSON_EXPR(node))
		return holds_domain(exprType(node));
	switch (nodeTag(node))
	{
		case T_CoerceToDomain:
			return true;
		case T_FuncExpr:
		case T_OpExpr:
		case T_CoerceViaIO:
			return holds_domain(exprType(node));
		case T_RangeTblFunction:
			return any_holds_domain(((RangeTblFunction *) node)->funccoltypes);
		case T_TableFunc:
			return any_holds_domain(((TableFunc *) node)->coltypes);
		default:
			return false;
	}
}

/*
 * May what is evaluated for a row see the rows before?  Of aggregates, and of
 * domains' constraints, only their functions' volatility would say: users' own
 * are not looked into.
 */
static bool
may_look(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, function_may_look, context) || makes_domain(node) ||
		(IsA(node, Aggref) && ((Aggref *) node)->aggfnoid >= FirstNormalObjectId) ||
		(IsA(node, WindowFunc) && ((WindowFunc *) node)->winfnoid >= FirstNormalObjectId))
		return true;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		return query->rowMarks != NIL || query_tree_walker(query, may_look, context, 0);
	}
	return expression_tree_walker(node, may_look, context);
}

/* The planner gives such a column a NULL, and makes a value of the domain of it. */
static bool
leaves_out_domain(Relation rel, const List *targets)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *given = NULL;
	ListCell   *lc;

	foreach(lc, targets)
		given = bms_add_member(given, lfirst_node(TargetEntry, lc)->resno);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, i);

		if (!attr->attisdropped && !bms_is_member(attr->attnum, given) &&
			get_typtype(attr->atttypid) == TYPTYPE_DOMAIN)
			return true;
	}
	return false;
}

/*
 * Before planning, which changes the query: is it an INSERT whose rows may be
 * collected?
 */
bool
lsm_insert_select_plan(Query *query)
{
	Relation	target;
	bool		may_be;

	/* one row of VALUES has no range table entry */
	if (query->commandType != CMD_INSERT || list_length(query->rtable) < 2 ||
		query->onConflict != NULL || query->returningList != NIL ||
		query->withCheckOptions != NIL || query->hasModifyingCTE)
		return false;
	target = relation_open(rt_fetch(query->resultRelation, query->rtable)->relid, NoLock);
	may_be = lsm_relation_is_table(target) && !leaves_out_domain(target, query->targetList);
	relation_close(target, NoLock);
	return may_be && !may_look((Node *) query, NULL);
}

/* `plan` is that of such a query. */
void
lsm_insert_select_mark(PlannedStmt *plan)
{
	ModifyTable *modify;

	if (!IsA(plan->planTree, ModifyTable))
		return;
	modify = (ModifyTable *) plan->planTree;
	if (list_length(modify->fdwPrivLists) == 1 && linitial(modify->fdwPrivLists) == NULL)
		linitial(modify->fdwPrivLists) = list_make1(makeString(ROWS_MARK));
}

static bool
is_marked(const ModifyTable *modify)
{
	List	   *private;

	if (list_length(modify->fdwPrivLists) != 1)
		return false;
	private = linitial(modify->fdwPrivLists);
	return list_length(private) == 1 && IsA(linitial(private), String) &&
		strcmp(strVal(linitial(private)), ROWS_MARK) == 0;
}

/* ======================================================================
 * ExecutorStart: does the table allow it?
 * ====================================================================== */

static bool
has_insert_triggers(const TriggerDesc *triggers)
{
	return triggers != NULL &&
		(triggers->trig_insert_before_row || triggers->trig_insert_after_row ||
		 triggers->trig_insert_instead_row || triggers->trig_insert_before_statement ||
		 triggers->trig_insert_after_statement || triggers->trig_insert_new_table);
}

/* Conditions and columns that are computed for each row. */
static bool
constraints_may_look(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	const TupleConstr *constr = desc->constr;

	for (int i = 0; constr != NULL && i < constr->num_check; i++)
	{
		if (may_look(stringToNode(constr->check[i].ccbin), NULL))
			return true;
	}
	for (int i = 0; constr != NULL && constr->has_generated_stored && i < constr->num_defval; i++)
	{
		if (TupleDescAttr(desc, constr->defval[i].adnum - 1)->attgenerated &&
			may_look(stringToNode(constr->defval[i].adbin), NULL))
			return true;
	}
	return rel->rd_rel->relispartition && may_look((Node *) RelationGetPartitionQual(rel), NULL);
}

static void
open_indexes(ResultRelInfo *rri)
{
	if (rri->ri_RelationDesc->rd_rel->relhasindex && rri->ri_IndexRelationDescs == NULL)
		ExecOpenIndices(rri, false);
}

static bool
indexes_may_look(ResultRelInfo *rri)
{
	open_indexes(rri);
	for (int i = 0; i < rri->ri_NumIndices; i++)
	{
		const IndexInfo *info = rri->ri_IndexRelationInfo[i];

		if (may_look((Node *) info->ii_Expressions, NULL) ||
			may_look((Node *) info->ii_Predicate, NULL))
			return true;
	}
	return false;
}

/*
 * Are the plan's columns the table's?  If not (junk columns, or the table has
 * been changed since), the executor knows what to do.
 */
static bool
columns_match(Relation rel, const List *targets)
{
	TupleDesc	desc = RelationGetDescr(rel);
	ListCell   *lc;
	int			at = 0;

	if (list_length(targets) != desc->natts)
		return false;
	foreach(lc, targets)
	{
		TargetEntry *target = lfirst_node(TargetEntry, lc);
		Form_pg_attribute attr = TupleDescAttr(desc, at++);

		if (target->resjunk)
			return false;
		if (attr->attisdropped || attr->attgenerated)
		{
			if (!IsA(target->expr, Const) || !((Const *) target->expr)->constisnull)
				return false;
		}
		else if (exprType((Node *) target->expr) != attr->atttypid)
			return false;
	}
	return true;
}

static bool
table_allows(ModifyTableState *modify)
{
	ResultRelInfo *rri = modify->resultRelInfo;
	Relation	rel = rri->ri_RelationDesc;

	return lsm_relation_is_table(rel) &&
		modify->mt_partition_tuple_routing == NULL && modify->mt_transition_capture == NULL &&
		rri->ri_WithCheckOptions == NIL && rri->ri_projectReturning == NULL &&
		!has_insert_triggers(rri->ri_TrigDesc) && !constraints_may_look(rel) &&
		columns_match(rel, outerPlanState(modify)->plan->targetlist) && !indexes_may_look(rri);
}

/* ======================================================================
 * Execution
 * ====================================================================== */

/* What the executor does with a row before it inserts it. */
static void
check_row(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate)
{
	Relation	rel = rri->ri_RelationDesc;
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	slot->tts_tableOid = RelationGetRelid(rel);
	if (constr != NULL && constr->has_generated_stored)
		ExecComputeStoredGenerated(rri, estate, slot, CMD_INSERT);
	if (constr != NULL)
		ExecConstraints(rri, slot, estate);
	if (rel->rd_rel->relispartition)
		ExecPartitionCheck(rri, slot, estate, true);
}

static void
collect_row(RowBuffer *buffer, ResultRelInfo *rri, TupleTableSlot *source, EState *estate)
{
	TupleTableSlot *slot;

	if (buffer->n == buffer->nslots)
		buffer->slots[buffer->nslots++] = table_slot_create(rri->ri_RelationDesc,
															&estate->es_tupleTable);
	slot = buffer->slots[buffer->n];
	ExecCopySlot(slot, source);
	check_row(rri, slot, estate);
	buffer->bytes += ExecFetchSlotHeapTuple(slot, false, NULL)->t_len;
	buffer->n++;
}

static void
insert_index_entries(ResultRelInfo *rri, TupleTableSlot *slot, EState *estate)
{
	if (rri->ri_NumIndices > 0)
		list_free(ExecInsertIndexTuples(rri, estate, 0, slot, NIL, NULL));
}

/* Unique indexes, exclusion constraints. */
static bool
may_wait_in_several_indexes(const ResultRelInfo *rri)
{
	int			n = 0;

	for (int i = 0; i < rri->ri_NumIndices; i++)
		n += rri->ri_IndexRelationInfo[i]->ii_Unique ||
			rri->ri_IndexRelationInfo[i]->ii_ExclusionOps != NULL;
	return n > 1;
}

static void
insert_together(RowBuffer *buffer, ResultRelInfo *rri, EState *estate)
{
	LsmRowGroup group;

	lsm_row_group_begin(&group, !may_wait_in_several_indexes(rri));
	PG_TRY();
	{
		MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));

		table_multi_insert(rri->ri_RelationDesc, buffer->slots, buffer->n,
						   estate->es_output_cid, 0, NULL);
		MemoryContextSwitchTo(old);
		for (int i = 0; i < buffer->n; i++)
		{
			ResetPerTupleExprContext(estate);
			insert_index_entries(rri, buffer->slots[i], estate);
		}
	}
	PG_FINALLY();
	{
		lsm_row_group_end(&group);
	}
	PG_END_TRY();
}

static void
insert_buffer(RowBuffer *buffer, ResultRelInfo *rri, EState *estate)
{
	Relation	rel = rri->ri_RelationDesc;

	open_indexes(rri);
	if (buffer->n > 1)
		insert_together(buffer, rri, estate);
	else
	{
		table_tuple_insert(rel, buffer->slots[0], estate->es_output_cid, 0, NULL);
		insert_index_entries(rri, buffer->slots[0], estate);
	}
	for (int i = 0; i < buffer->n; i++)
		ExecClearTuple(buffer->slots[i]);
	buffer->n = 0;
	buffer->bytes = 0;
}

/* In place of ExecModifyTable(): all rows. */
static TupleTableSlot *
insert_rows(PlanState *state)
{
	ModifyTableState *modify = castNode(ModifyTableState, state);
	EState	   *estate = state->state;
	ResultRelInfo *rri = modify->resultRelInfo;
	RowBuffer  *buffer;
	uint64		rows = 0;

	CHECK_FOR_INTERRUPTS();
	if (estate->es_epq_active != NULL)
		elog(ERROR, "INSERT should not be executed during EvalPlanQual");
	if (modify->mt_done)
		return NULL;

	buffer = palloc0(sizeof(RowBuffer));
	for (;;)
	{
		TupleTableSlot *source;

		ResetPerTupleExprContext(estate);
		source = ExecProcNode(outerPlanState(modify));
		if (TupIsNull(source))
			break;
		collect_row(buffer, rri, source, estate);
		if (++rows <= ONE_BY_ONE || buffer->n == BUFFER_ROWS || buffer->bytes >= BUFFER_BYTES)
			insert_buffer(buffer, rri, estate);
	}
	if (buffer->n > 0)
		insert_buffer(buffer, rri, estate);
	pfree(buffer);
	if (modify->canSetTag)
		estate->es_processed += rows;
	modify->mt_done = true;
	return NULL;
}

/*
 * After ExecutorStart: take an INSERT over if it allows that.  Serializable
 * transactions check each index entry for conflicts, so there is nothing to be
 * gained.
 */
void
lsm_insert_select_prepare(QueryDesc *query_desc, int eflags)
{
	PlanState  *state = query_desc->planstate;
	MemoryContext old;

	if (!lsm_insert_batching || (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 ||
		query_desc->plannedstmt->commandType != CMD_INSERT ||
		!IsA(state, ModifyTableState) || !is_marked((ModifyTable *) state->plan) ||
		IsolationIsSerializable())
		return;
	old = MemoryContextSwitchTo(state->state->es_query_cxt);
	if (table_allows((ModifyTableState *) state))
		ExecSetExecProcNode(state, insert_rows);
	MemoryContextSwitchTo(old);
}
