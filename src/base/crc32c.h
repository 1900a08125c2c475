/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli, reflected, as in iSCSI and SCTP). Pure. */
#ifndef TT_BASE_CRC32C_H
#define TT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of some bytes; `crc` is 0, or the CRC of the bytes before them. */
uint32_t tt_crc32c(uint32_t crc, const void *data, size_t len);

/* The same without special instructions, for machines that lack them and for tests. */
uint32_t tt_crc32c_portable(uint32_t crc, const void *data, size_t len);

#endif
