// IEEE 754 binary16: round to nearest even, subnormals kept, NaN made quiet, as F16C instructions do.
#pragma once

#include <stddef.h>
#include <stdint.h>

float vks_half_to_float(uint16_t half);
uint16_t vks_float_to_half(float value);

// Rows, by instructions where the processor has them. The pixel side needs no alignment.
void vks_halves_to_floats(const void *halves, float *out, size_t count);
void vks_floats_to_halves(const float *in, void *halves, size_t count);
