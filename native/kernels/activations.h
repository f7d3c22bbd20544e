#pragma once
// Where the parts of a prepared row of activations lie.
//
// For each block of 32 columns there is one scale s, and q = round(x / s). With two planes s is the
// largest |x| / 32639 and q = 256 * high + low with signed bytes; with one plane it is the largest
// / 127 and q is the low byte. Sums of q are kept for zeros and offsets: over the block and its two
// halves.

#include <cstddef>
#include <cstdint>

#include "kernels/table.h"

namespace pyrite {

// Offsets in bytes. An area whose form was not asked for is empty.
struct ActivationAreas {
  size_t scales;       // float (blocks,)
  size_t sums;         // int32 (blocks,) of q
  size_t half_sums;    // int32 (blocks, 2)
  size_t values;       // float (blocks,) s * sum
  size_t half_values;  // float (blocks, 2)
  size_t high, low;    // int8 (columns,): kPlanes
  size_t words;        // int16 (columns,), each four columns in the order 0 2 1 3: kWords
  size_t floats;       // float (columns,): kFloats
  size_t end;
};

constexpr size_t round_up_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

constexpr ActivationAreas activation_areas(int columns, int planes, uint32_t forms) {
  const size_t width = size_t(columns);
  const size_t blocks = forms & (kPlanes | kWords) ? width / kBlock : 0;
  const size_t plane = forms & kPlanes ? width : 0;
  ActivationAreas areas{};
  areas.sums = areas.scales + 4 * blocks;
  areas.half_sums = areas.sums + 4 * blocks;
  areas.values = areas.half_sums + 8 * blocks;
  areas.half_values = areas.values + 4 * blocks;
  areas.high = round_up_64(areas.half_values + 8 * blocks);
  areas.low = areas.high + round_up_64(planes == 2 ? plane : 0);
  areas.words = areas.low + round_up_64(plane);
  areas.floats = areas.words + round_up_64(forms & kWords ? 2 * width : 0);
  areas.end = areas.floats + round_up_64(forms & kFloats ? 4 * width : 0);
  return areas;
}

}  // namespace pyrite
