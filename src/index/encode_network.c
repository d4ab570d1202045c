/*-------------------------------------------------------------------------
 *
 * encode_network.c
 *	  Codes of inet and cidr.
 *
 *		family, network with zeros behind its prefix, length of the prefix,
 *		address
 *
 * A network is less than a longer one within it, for the bits that the latter
 * has more are zeros in the former.  No locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/inet.h"

#include "index/index.h"

/* Bytes of an address of the family */
static inline int
address_bytes(uint8 family)
{
	return family == PGSQL_AF_INET ? 4 : 16;
}

/* As network_cmp() compares: the network, the length of its prefix, the rest. */
void
lsm_put_inet(StringInfo out, Datum value)
{
	inet	   *in = DatumGetInetPP(value);
	int			bytes = address_bytes(ip_family(in));
	int			bits = ip_bits(in);

	appendStringInfoCharMacro(out, ip_family(in));
	for (int i = 0; i < bytes; i++)
	{
		int			used = Min(Max(bits - 8 * i, 0), 8);

		appendStringInfoCharMacro(out, ip_addr(in)[i] & (0xFF00 >> used));
	}
	appendStringInfoCharMacro(out, bits);
	appendBinaryStringInfo(out, (char *) ip_addr(in), bytes);
	if ((Pointer) in != DatumGetPointer(value))
		pfree(in);
}

uint32
lsm_inet_code_length(const uint8 *bytes, uint8 mask)
{
	return 2 + 2 * address_bytes(bytes[0] ^ mask);
}

Datum
lsm_get_inet(const uint8 *bytes)
{
	inet	   *in = palloc0(sizeof(inet));
	int			address = address_bytes(bytes[0]);

	ip_family(in) = bytes[0];
	ip_bits(in) = bytes[1 + address];
	memcpy(ip_addr(in), bytes + 2 + address, address);
	SET_INET_VARSIZE(in);
	return InetPGetDatum(in);
}
