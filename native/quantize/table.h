#pragma once
// Quantizers of one instruction set. A tile is 16 groups of 16 or 32 adjacent columns, one group to a
// lane; every instruction set gives the same bytes, for no fused multiply-add is used.

#include <cstddef>
#include <cstdint>

#include "kernels/table.h"

namespace pyrite {

struct Quantizer {
  WeightType type;
  int tile_columns;  // values that one call takes
  int tile_bytes;    // of the blocks that it writes
  // `importance` holds a positive weight for each value, or is null: all weigh the same.
  void (*tile)(const float* values, const float* importance, uint8_t* blocks);
};

struct QuantizerTable {
  const char* isa;
  const Quantizer* rows;
  int num_rows;
  // The largest magnitude of 16 * count values; NaN when one of them is not finite.
  float (*largest)(const float* values, size_t count);
};

}  // namespace pyrite
