#pragma once
// How a prepared row of activations lies in memory.
//
// For each block of 32 columns there is one scale s, and q = round(x / s). With two planes s is the
// largest |x| / 32639 and q = 256 * high + low with signed bytes; with one plane it is the largest
// / 127 and q is the low byte. A block's numbers lie before its integers, so that a kernel reaches
// all of a row from one pointer. A row has an area for each form that was asked for.

#include <cstddef>
#include <cstdint>

#include "kernels/table.h"

namespace pyrite {

// Followed by int8 (planes, 32), the low plane first, or by int16 (32,), each four columns in the
// order 0 2 1 3.
struct BlockHead {
  float scale;
  int32_t sum;            // of q, for zeros
  float value;            // scale * sum, for offsets
  int32_t half_sums[2];   // the same of columns 0-15 and 16-31
  float half_values[2];
  float unused;
};
static_assert(sizeof(BlockHead) == 32);

// Followed by int8 (32,) of one plane. For zeros there is less the sum of q over the first and over
// the last two columns of each four.
struct PairHead {
  float scale;
  float value;
  float half_values[2];
  int16_t less_pairs[2];
  int16_t less_half_pairs[2][2];  // the same of columns 0-15 and 16-31
  float unused;
};
static_assert(sizeof(PairHead) == 32);

constexpr size_t plane_block_bytes(int planes) { return sizeof(BlockHead) + size_t(planes) * 32; }
constexpr size_t kByteBlockBytes = sizeof(PairHead) + 32;
constexpr size_t kWordBlockBytes = sizeof(BlockHead) + 64;

// Offsets in bytes. An area whose form was not asked for is empty.
struct ActivationAreas {
  size_t planes;  // (blocks,) of plane_block_bytes
  size_t words;   // (blocks,) of kWordBlockBytes
  size_t bytes;   // (blocks,) of kByteBlockBytes
  size_t floats;  // float (columns,)
  size_t end;
};

constexpr size_t round_up_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

constexpr ActivationAreas activation_areas(int columns, int planes, uint32_t forms) {
  const size_t blocks = size_t(columns) / kBlock;
  ActivationAreas areas{};
  areas.words = round_up_64(forms & kPlanes ? blocks * plane_block_bytes(planes) : 0);
  areas.bytes = areas.words + round_up_64(forms & kWords ? blocks * kWordBlockBytes : 0);
  areas.floats = areas.bytes + round_up_64(forms & kBytes ? blocks * kByteBlockBytes : 0);
  areas.end = areas.floats + round_up_64(forms & kFloats ? 4 * size_t(columns) : 0);
  return areas;
}

}  // namespace pyrite
