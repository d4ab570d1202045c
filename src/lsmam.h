/*-------------------------------------------------------------------------
 *
 * lsmam.h
 *	  What the library is put together from: settings, the background workers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LSMAM_H
#define LSMAM_H

/* ---- guc.c ---- */

extern void lsm_guc_init(void);

/* ---- worker.c ---- */

extern void lsm_worker_register(void);
extern PGDLLEXPORT void lsm_worker_main(Datum main_arg);

#endif							/* LSMAM_H */
