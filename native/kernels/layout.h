#pragma once
// What each weight type is made of, and where the parts of a packed panel lie.
//
// A quantised weight is step * (code - zero), plus an offset for the types that have one. The codes
// of a block of 32 columns are eight groups of four columns; a group of the panel's 16 rows is 64
// bytes (row, column in the group) once a code fills a byte. Packed, vectors of 64 bytes hold:
//
//   8 bits   group g in vector g
//   4 bits   group g in the low halves of vector g, group g + 4 in the high ones
//   2 bits   group g in bits 2 (g / 2) of vector g % 2
//   1 bit    group g in bit g of the one vector
//
// so that bytes are widened by a shift and a mask on any instruction set, dot products of four
// bytes (AVX2, VNNI, NEON) run over them as they are, and eight groups are the B tile of AMX. A
// code of 5, 6 or 3 bits is split into a part of 4, 4 or 2 bits and the rest.
//
// A panel is a row of units of eight blocks, the last one of what is left. In a unit the parts of
// one kind lie together: codes, rests, steps of K-quants, float16 scales. So a panel is read from
// its first byte to its last, one stream that memory can look ahead in. Units start at multiples of
// 32, panels at multiples of 64.

#include <cstddef>
#include <cstdint>

#include "kernels/table.h"

namespace pyrite {

struct WeightTraits {
  int low_bits;      // of a code, in the first area; 0: the type is a float
  int high_bits;     // of a code, in the second area
  int zero;          // the code that means 0
  int step_columns;  // columns under one step: 32 or 16
  int step_bytes;    // of a row, for each step: 0, 1 (scale) or 2 (scale, minimum)
  int num_halves;    // float16 of a file block: 1 (scale) or 2 (scale, offset or scale of minima)
  int file_columns;  // of a block in the file
  int file_bytes;

  constexpr bool is_float() const { return low_bits == 0; }
  constexpr bool has_offset() const { return num_halves == 2; }
};

constexpr WeightTraits traits_of(WeightType type) {
  switch (type) {
    case WeightType::F32: return {0, 0, 0, 0, 0, 0, 1, 4};
    case WeightType::F16: return {0, 0, 0, 0, 0, 0, 1, 2};
    case WeightType::BF16: return {0, 0, 0, 0, 0, 0, 1, 2};
    case WeightType::Q4_0: return {4, 0, 8, 32, 0, 1, 32, 18};
    case WeightType::Q4_1: return {4, 0, 0, 32, 0, 2, 32, 20};
    case WeightType::Q5_0: return {4, 1, 16, 32, 0, 1, 32, 22};
    case WeightType::Q5_1: return {4, 1, 0, 32, 0, 2, 32, 24};
    case WeightType::Q8_0: return {8, 0, 128, 32, 0, 1, 32, 34};
    case WeightType::Q2_K: return {2, 0, 0, 16, 1, 2, 256, 84};
    case WeightType::Q3_K: return {2, 1, 4, 16, 1, 1, 256, 110};
    case WeightType::Q4_K: return {4, 0, 0, 32, 2, 2, 256, 144};
    case WeightType::Q5_K: return {4, 1, 0, 32, 2, 2, 256, 176};
    case WeightType::Q6_K: return {4, 2, 32, 16, 1, 1, 256, 210};
    case WeightType::IQ4_NL: return {4, 0, 128, 32, 0, 1, 32, 18};
    case WeightType::IQ4_XS: return {4, 0, 128, 32, 1, 1, 256, 136};
  }
  return {};
}

constexpr bool is_nonlinear(WeightType type) {
  return type == WeightType::IQ4_NL || type == WeightType::IQ4_XS;
}

// Whether the steps are whole numbers under one scale for each block of the file. They are then a
// part of a block's exact sum.
constexpr bool has_whole_steps(WeightType type) {
  return traits_of(type).step_bytes > 0 && !is_nonlinear(type);
}

// Bits of a code once it has been widened.
constexpr int code_bits(WeightType type) {
  return is_nonlinear(type) ? 8 : traits_of(type).low_bits + traits_of(type).high_bits;
}

// The sixteen values of IQ4_NL and IQ4_XS (ggml's table), raised by their zero.
alignas(16) constexpr uint8_t kNonlinear[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                129, 141, 153, 166, 181, 197, 217, 241};

constexpr int kUnitBlocks = 8;

// Offsets into a unit, in bytes.
struct UnitAreas {
  size_t low, high, steps, halves, end;
};

constexpr UnitAreas unit_areas(WeightType type, int blocks) {
  const WeightTraits traits = traits_of(type);
  UnitAreas areas{};
  areas.high = size_t(blocks) * 64 * traits.low_bits;
  areas.steps = areas.high + size_t(blocks) * 64 * traits.high_bits;
  areas.halves = areas.steps + size_t(blocks) * (kBlock / traits.step_columns) * kPanelRows *
                                   traits.step_bytes;
  const int file_blocks = blocks * kBlock / traits.file_columns;
  areas.end = areas.halves + size_t(file_blocks) * 2 * kPanelRows * traits.num_halves;
  return areas;
}

// From one unit of a panel to the next.
constexpr size_t unit_bytes(WeightType type) { return unit_areas(type, kUnitBlocks).end; }

}  // namespace pyrite
