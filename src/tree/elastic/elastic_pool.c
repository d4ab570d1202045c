/*-------------------------------------------------------------------------
 *
 * elastic_pool.c
 *	  Equal pieces of shared memory that readers look at without a lock: free
 *	  ones, used ones, and those taken back that a reader may still see.
 *
 * A piece taken back (retired) goes through: pending (the epoch of its
 * unlinking is not known yet), limbo (known; free when it has passed), free.
 * Links are kept beside the pieces, never in them: a reader that sees a
 * retired filter unit has to find its bits as they were.
 *
 * All functions: lsm_elastic->lock held exclusively.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tree/elastic/elastic.h"
#include "tree/elastic/elastic_queue.h"
#include "tree/memtable/memtable.h"

/*
 * next[n] is uninitialised: pieces beyond `used` were never handed out, so that
 * memory which nobody needs is never touched.
 */
void
lsm_elastic_pool_init(LsmElasticPool *pool, uint32 n, uint32 *next)
{
	memset(pool, 0, sizeof(*pool));
	pool->n = n;
	pool->next = next;
	pool->free_first = LSM_ELASTIC_NONE;
	pool->pending.first = LSM_ELASTIC_NONE;
}

static void
chain_push(LsmElasticChain *chain, uint32 *next, uint32 piece)
{
	next[piece] = chain->first;
	if (chain->n == 0)
		chain->last = piece;
	chain->first = piece;
	chain->n++;
}

static void
free_chain(LsmElasticPool *pool, LsmElasticChain *chain)
{
	if (chain->n == 0)
		return;
	pool->next[chain->last] = pool->free_first;
	pool->free_first = chain->first;
	pool->taken -= chain->n;
	chain->n = 0;
	chain->first = LSM_ELASTIC_NONE;
}

/*
 * A piece, or LSM_ELASTIC_NONE: all are taken, or as many as `limit`.
 */
uint32
lsm_elastic_pool_take(LsmElasticPool *pool, uint32 limit)
{
	uint32		piece;

	if (pool->taken >= Min(limit, pool->n))
		return LSM_ELASTIC_NONE;
	if (pool->free_first != LSM_ELASTIC_NONE)
	{
		piece = pool->free_first;
		pool->free_first = pool->next[piece];
	}
	else
		piece = pool->used++;
	Assert(piece < pool->n);
	pool->taken++;
	return piece;
}

/*
 * No reader can have seen the piece.
 */
void
lsm_elastic_pool_give(LsmElasticPool *pool, uint32 piece)
{
	LsmElasticChain chain = {0};

	Assert(piece < pool->used);
	chain_push(&chain, pool->next, piece);
	free_chain(pool, &chain);
}

/*
 * The piece was unlinked.
 */
void
lsm_elastic_pool_retire(LsmElasticPool *pool, uint32 piece)
{
	Assert(piece < pool->used);
	chain_push(&pool->pending, pool->next, piece);
}

/*
 * What was retired up to now was unlinked before `epoch` was advanced.
 */
void
lsm_elastic_pool_seal(LsmElasticPool *pool, uint64 epoch)
{
	LsmElasticChain *newest;

	if (pool->pending.n == 0)
		return;
	if (pool->nlimbo == LSM_ELASTIC_LIMBO)
	{
		/* together with the newest batch: it waits a little longer */
		newest = &pool->limbo[(pool->first_limbo + pool->nlimbo - 1) % LSM_ELASTIC_LIMBO];
		pool->next[newest->last] = pool->pending.first;
		newest->last = pool->pending.last;
		newest->n += pool->pending.n;
	}
	else
	{
		newest = &pool->limbo[(pool->first_limbo + pool->nlimbo++) % LSM_ELASTIC_LIMBO];
		*newest = pool->pending;
	}
	newest->epoch = epoch;
	pool->pending.n = 0;
	pool->pending.first = LSM_ELASTIC_NONE;
}

/*
 * Free what no reader can see any more; returns the number of pieces.
 */
uint32
lsm_elastic_pool_reclaim(LsmElasticPool *pool)
{
	uint32		before = pool->taken;

	while (pool->nlimbo > 0 &&
		   lsm_epoch_passed(pool->limbo[pool->first_limbo].epoch))
	{
		free_chain(pool, &pool->limbo[pool->first_limbo]);
		pool->first_limbo = (pool->first_limbo + 1) % LSM_ELASTIC_LIMBO;
		pool->nlimbo--;
	}
	return before - pool->taken;
}

bool
lsm_elastic_pool_waiting(const LsmElasticPool *pool)
{
	return pool->nlimbo > 0 || pool->pending.n > 0;
}
