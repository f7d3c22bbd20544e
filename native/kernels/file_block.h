#pragma once
// Reading one block of a quantised type as the file stores it. Source of the layouts: ggml's block
// structures; the meaning of each is pyrite.quant.dequant.

#include <cstdint>

#include "kernels/table.h"

namespace pyrite {

// Codes of columns [32 * part, 32 * part + 32) of a block, each in a byte, raised so that the
// type's zero is traits_of(type).zero. Codes of types with a table are places in it.
void read_codes(WeightType type, const uint8_t* block, int part, uint8_t codes[32]);

// The step bytes of the same columns: traits.step_bytes() for each traits.step_columns.
void read_steps(WeightType type, const uint8_t* block, int part, uint8_t steps[2]);

// The float16 numbers of a block: its scale, and its offset or the scale of its minima.
void read_halves(WeightType type, const uint8_t* block, uint16_t halves[2]);

}  // namespace pyrite
