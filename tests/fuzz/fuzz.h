/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz.h - what a fuzz target is: one function, called with any bytes. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
