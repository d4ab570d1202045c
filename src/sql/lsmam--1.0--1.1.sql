/* lsmam 1.0 to 1.1 */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION lsmam UPDATE TO '1.1'" to load this file. \quit

-- The rules of lsmam_core.sql hold here: all that is not ours is named with its schema.
