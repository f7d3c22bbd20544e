#pragma once
// What each weight type is made of, and where the parts of a packed panel lie.
//
// A quantised weight is step * (code - zero), plus an offset for the types that have one; a type with
// a table of values has its code looked up there first. The codes of a block of 32 columns are eight
// groups of four columns; a group of the panel's 16 rows is 64 bytes (row, column in the group) once a
// code fills a byte. Packed, vectors of 64 bytes hold:
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
// Floats lie column by column, each the values of 16 rows. Those of 8 bits have a float32 scale for 128
// columns of a row; a unit of theirs has the codes of its columns, then the scales. Their columns lie
// two by two, for a row's two codes are a word that shifts and masks turn into one float16 or the other.
//
// A panel is a row of units of eight blocks, the last one of what is left. In a unit the parts of
// one kind lie together: codes, rests, steps, float16 scales. So a panel is read from its first byte
// to its last, one stream that memory can look ahead in. Units start at multiples of 32, panels at
// multiples of 64.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/table.h"
#include "kernels/values.h"

namespace pyrite {

// What a row has for each of its steps.
enum class Steps : uint8_t {
  kNone,     // nothing: the step is the float16 scale
  kWhole,    // int8, times the scale; a part of the exact sum
  kLeast,    // uint8 of the same kind, and one that is times the scale of minima
  kNibbles,  // the same two in the halves of a byte
  kShifted,  // a scale below 16, and above it whether 9/8 of it are the minimum, not 7/8
  kScaled,   // int8, times the scale in float32: exact sums would not fit into 32 bits
  kPower,    // an exponent, E8M0
  kSmall,    // E4M3 without a sign
};

struct WeightTraits {
  int low_bits;      // of a code, in the first area; 0: the type is a float
  int high_bits;     // of a code, in the second area
  int zero;          // the code, or its value, that means 0; there is an offset if it is 0 itself
  int step_columns;  // columns under one step: 32 or 16
  Steps steps;
  int num_halves;    // float16 of a block: 0, 1 (scale) or 2 (scale, offset or scale of minima)
  int file_columns;  // of a block in the file
  int file_bytes;
  const uint8_t* values = nullptr;  // of the codes, raised by the zero
  float unit = 1;                   // what the values are in; a power of two that the scale takes on

  constexpr bool is_float() const { return low_bits == 0; }
  // A float of 8 bits, under a float32 scale at the start of the file's block.
  constexpr bool is_scaled_float() const { return is_float() && file_columns > 1; }
  constexpr bool has_offset() const { return zero == 0 && !is_float(); }
  // Whether the steps are whole numbers under one scale for each block of the file. They are then a
  // part of a block's exact sum.
  constexpr bool has_whole_steps() const {
    return steps == Steps::kWhole || steps == Steps::kLeast || steps == Steps::kNibbles ||
           steps == Steps::kShifted;
  }
  constexpr int step_bytes() const {
    return steps == Steps::kNone ? 0 : steps == Steps::kLeast ? 2 : 1;
  }
  // Bits of a code once it has been widened.
  constexpr int code_bits() const {
    if (values == nullptr) return low_bits + high_bits;
    unsigned all = 0;
    for (int code = 0; code < 16; ++code) all |= values[code];
    return std::bit_width(all);
  }
};

constexpr WeightTraits traits_of(WeightType type) {
  switch (type) {
    case WeightType::F32: return {0, 0, 0, 0, Steps::kNone, 0, 1, 4};
    case WeightType::F16: return {0, 0, 0, 0, Steps::kNone, 0, 1, 2};
    case WeightType::BF16: return {0, 0, 0, 0, Steps::kNone, 0, 1, 2};
    case WeightType::Q4_0: return {4, 0, 8, 32, Steps::kNone, 1, 32, 18};
    case WeightType::Q4_1: return {4, 0, 0, 32, Steps::kNone, 2, 32, 20};
    case WeightType::Q5_0: return {4, 1, 16, 32, Steps::kNone, 1, 32, 22};
    case WeightType::Q5_1: return {4, 1, 0, 32, Steps::kNone, 2, 32, 24};
    case WeightType::Q8_0: return {8, 0, 128, 32, Steps::kNone, 1, 32, 34};
    case WeightType::Q2_K: return {2, 0, 0, 16, Steps::kNibbles, 2, 256, 84};
    case WeightType::Q3_K: return {2, 1, 4, 16, Steps::kWhole, 1, 256, 110};
    case WeightType::Q4_K: return {4, 0, 0, 32, Steps::kLeast, 2, 256, 144};
    case WeightType::Q5_K: return {4, 1, 0, 32, Steps::kLeast, 2, 256, 176};
    case WeightType::Q6_K: return {4, 2, 32, 16, Steps::kWhole, 1, 256, 210};
    case WeightType::IQ4_NL: return {4, 0, 128, 32, Steps::kNone, 1, 32, 18, kNonlinear};
    case WeightType::IQ4_XS: return {4, 0, 128, 32, Steps::kScaled, 1, 256, 136, kNonlinear};
    case WeightType::IQ1_S: return {2, 0, 0, 32, Steps::kShifted, 1, 256, 50};
    case WeightType::IQ1_M: return {2, 1, 16, 16, Steps::kWhole, 1, 256, 56, kIQ1M, 0.125f};
    case WeightType::IQ2_XXS: return {2, 1, 64, 32, Steps::kWhole, 1, 256, 66, kIQ2, 0.125f};
    case WeightType::IQ2_XS: return {2, 1, 64, 16, Steps::kWhole, 1, 256, 74, kIQ2, 0.125f};
    case WeightType::IQ2_S: return {2, 1, 64, 16, Steps::kWhole, 1, 256, 82, kIQ2, 0.125f};
    case WeightType::IQ3_XXS: return {4, 0, 32, 32, Steps::kWhole, 1, 256, 98, kIQ3XXS, 0.5f};
    case WeightType::IQ3_S: return {4, 0, 16, 32, Steps::kWhole, 1, 256, 110, kIQ3S};
    case WeightType::TQ1_0: return {2, 0, 1, 32, Steps::kNone, 1, 256, 54};
    case WeightType::TQ2_0: return {2, 0, 1, 32, Steps::kNone, 1, 256, 66};
    case WeightType::MXFP4: return {4, 0, 16, 32, Steps::kPower, 0, 32, 17, kDoubledE2M1};
    case WeightType::NVFP4: return {4, 0, 16, 16, Steps::kSmall, 0, 64, 36, kDoubledE2M1};
    case WeightType::Q1_0: return {1, 0, 1, 32, Steps::kNone, 1, 128, 18, kSigns};
    case WeightType::Q2_0: return {2, 0, 1, 32, Steps::kNone, 1, 64, 18};
    case WeightType::E4M3:
    case WeightType::E5M2: return {0, 0, 0, 0, Steps::kNone, 0, 128, 132};
  }
  return {};
}

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
                                   traits.step_bytes();
  const int file_blocks = blocks * kBlock / traits.file_columns;
  areas.end = areas.halves + size_t(file_blocks) * 2 * kPanelRows * traits.num_halves;
  return areas;
}

// From one unit of a panel to the next.
constexpr size_t unit_bytes(WeightType type) { return unit_areas(type, kUnitBlocks).end; }

// Of 8-bit floats: columns under one scale, and columns of a unit, of which the last one may have less.
constexpr int kScaleColumns = 128;
constexpr int kScaledUnitColumns = 2 * kScaleColumns;

// Where the code of a row lies among those of its unit.
constexpr size_t scaled_code_place(int column, int row) {
  return size_t(column / 2) * 2 * kPanelRows + size_t(2 * row + column % 2);
}

// A unit's scales follow its codes: of the first 128 columns the 16 rows', then of the others.
constexpr size_t scaled_unit_bytes(int columns) {
  return size_t(columns) * kPanelRows + size_t(columns / kScaleColumns) * kPanelRows * sizeof(float);
}

}  // namespace pyrite
