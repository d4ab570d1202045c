/*-------------------------------------------------------------------------
 *
 * header.c
 *	  The header of a filter's image.
 *
 * An image is a header of 64 bytes and a payload of whole cache lines, which
 * is therefore as well aligned as the image.  All numbers are little-endian.
 *
 *		 0	 8	magic
 *		 8	 2	format version
 *		10	 2	scheme (LsmFilterScheme)
 *		12	 1	digest id
 *		13	 1	leading columns; 0: digests of whole keys only.  Builds that do not
 *				know of leading columns take both bytes for a digest id, and what
 *				has some for an unknown one, which is "maybe".
 *		14	 2	k, probes per key, or what a scheme has in its place
 *		16	 8	bits per key asked for, IEEE double
 *		24	 8	keys
 *		32	 8	bits; ribbon: slots
 *		40	 8	payload bytes
 *		48	 8	checksum of the payload: XXH3_64bits
 *		56	 4	how many cache lines of the payload, from its start, that checksum
 *				covers; 0: all.  A scheme whose parts are read one by one gives each
 *				of the others a checksum of its own.
 *		60	 4	checksum of bytes 0..59: low half of XXH3_64bits
 *
 * No state, no locks.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "filter/filter_private.h"

#define OFF_VERSION				8
#define OFF_SCHEME				10
#define OFF_DIGEST_ID			12
#define OFF_LEADING				13
#define OFF_PROBES				14
#define OFF_BITS_PER_KEY		16
#define OFF_NKEYS				24
#define OFF_NBITS				32
#define OFF_PAYLOAD_BYTES		40
#define OFF_PAYLOAD_CHECKSUM	48
#define OFF_CHECKED_LINES		56
#define OFF_HEADER_CHECKSUM		60

/* First byte not ASCII, last ones what a transfer in text mode would change. */
static const uint8_t filter_magic[8] = {0xf1, 'l', 's', 'm', 'f', '\r', '\n', 0x1a};

/* ---- numbers ---- */

static void
put_double(uint8_t *to, double value)
{
	uint64_t	image;

	memcpy(&image, &value, sizeof(image));
	put_le(to, image, 8);
}

static double
get_double(const uint8_t *from)
{
	uint64_t	image = get_le(from, 8);
	double		value;

	memcpy(&value, &image, sizeof(value));
	return value;
}

/*
 * Checksums happen to be digests of the bytes.  A new digest id would not
 * change them.
 */
uint64_t
lsm_filter_checksum(const uint8_t *data, size_t data_bytes)
{
	return lsm_digest_key(data, data_bytes);
}

static uint32_t
lsm_filter_header_checksum(const uint8_t *header)
{
	return (uint32_t) lsm_filter_checksum(header, OFF_HEADER_CHECKSUM);
}

/* ---- writing ---- */

/* The header of an image whose payload is written. */
void
lsm_filter_write_header(const LsmFilter *filter, uint8_t *header)
{
	const uint8_t *payload = header + LSM_FILTER_HEADER_BYTES;
	uint64_t	checked_bytes = filter->checked_bytes > 0 ? filter->checked_bytes :
		filter->payload_bytes;

	memcpy(header, filter_magic, sizeof(filter_magic));
	put_le(header + OFF_VERSION, LSM_FILTER_FORMAT_VERSION, 2);
	put_le(header + OFF_SCHEME, filter->scheme, 2);
	put_le(header + OFF_DIGEST_ID, LSM_DIGEST_ID_XXH3_64, 1);
	put_le(header + OFF_LEADING, filter->leading, 1);
	put_le(header + OFF_PROBES, filter->probes, 2);
	put_double(header + OFF_BITS_PER_KEY, filter->bits_per_key);
	put_le(header + OFF_NKEYS, filter->nkeys, 8);
	put_le(header + OFF_NBITS, filter->nbits, 8);
	put_le(header + OFF_PAYLOAD_BYTES, filter->payload_bytes, 8);
	put_le(header + OFF_PAYLOAD_CHECKSUM,
		   lsm_filter_checksum(payload, (size_t) checked_bytes), 8);
	put_le(header + OFF_CHECKED_LINES, filter->checked_bytes / LSM_FILTER_LINE_BYTES, 4);
	put_le(header + OFF_HEADER_CHECKSUM, lsm_filter_header_checksum(header), 4);
}

/* ---- reading ---- */

/*
 * Checks what all format versions have in common.  Returns NULL, or what is
 * wrong.
 */
const char *
lsm_filter_check_envelope(const uint8_t *image, size_t image_bytes,
						  bool verify_checksum)
{
	uint64_t	payload_bytes;
	uint64_t	checked_bytes;

	if (image_bytes < LSM_FILTER_HEADER_BYTES)
		return "image is shorter than its header";
	if (memcmp(image, filter_magic, sizeof(filter_magic)) != 0)
		return "magic number is wrong";
	if (get_le(image + OFF_HEADER_CHECKSUM, 4) != lsm_filter_header_checksum(image))
		return "checksum of the header is wrong";

	payload_bytes = get_le(image + OFF_PAYLOAD_BYTES, 8);
	if (payload_bytes > image_bytes - LSM_FILTER_HEADER_BYTES)
		return "image is truncated";
	if (payload_bytes < image_bytes - LSM_FILTER_HEADER_BYTES)
		return "image is longer than its header says";

	checked_bytes = get_le(image + OFF_CHECKED_LINES, 4) * LSM_FILTER_LINE_BYTES;
	if (checked_bytes == 0)
		checked_bytes = payload_bytes;
	if (checked_bytes > payload_bytes)
		return "checksum covers more than the payload";
	if (verify_checksum &&
		get_le(image + OFF_PAYLOAD_CHECKSUM, 8) !=
		lsm_filter_checksum(image + LSM_FILTER_HEADER_BYTES, (size_t) checked_bytes))
		return "checksum of the payload is wrong";
	return NULL;
}

const char *
lsm_filter_header_scheme(const uint8_t *header, uint32_t *scheme)
{
	if (get_le(header + OFF_VERSION, 2) != LSM_FILTER_FORMAT_VERSION)
		return "format version is unknown";
	if (get_le(header + OFF_DIGEST_ID, 1) != LSM_DIGEST_ID_XXH3_64)
		return "digest function is unknown";
	*scheme = (uint32_t) get_le(header + OFF_SCHEME, 2);
	return NULL;
}

void
lsm_filter_read_header(const uint8_t *header, LsmFilter *filter)
{
	filter->checked_bytes = get_le(header + OFF_CHECKED_LINES, 4) * LSM_FILTER_LINE_BYTES;
	filter->leading = (uint32_t) get_le(header + OFF_LEADING, 1);
	filter->probes = (uint32_t) get_le(header + OFF_PROBES, 2);
	filter->nkeys = get_le(header + OFF_NKEYS, 8);
	filter->nbits = get_le(header + OFF_NBITS, 8);
	filter->bits_per_key = get_double(header + OFF_BITS_PER_KEY);
	filter->payload_bytes = get_le(header + OFF_PAYLOAD_BYTES, 8);
	filter->bits = header + LSM_FILTER_HEADER_BYTES;
}
