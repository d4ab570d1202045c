/*-------------------------------------------------------------------------
 *
 * row_hint_cache.h
 *	  Shared memory of the notes of rows (row_hint_cache.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_NEWEST_H
#define LSM_NEWEST_H


extern Size lsm_row_hint_shmem_bytes(void);
extern void lsm_row_hint_shmem_init(void);

#endif							/* LSM_NEWEST_H */
