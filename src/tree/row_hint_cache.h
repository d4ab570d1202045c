/*-------------------------------------------------------------------------
 *
 * newest.h
 *	  Shared memory of the notes of rows (newest.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSM_NEWEST_H
#define LSM_NEWEST_H


extern Size lsm_newest_shmem_bytes(void);
extern void lsm_newest_shmem_init(void);

#endif							/* LSM_NEWEST_H */
