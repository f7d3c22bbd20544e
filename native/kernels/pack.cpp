// From the file's rows to panels, and back to float32. See layout.h for where things go.

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/file_block.h"
#include "kernels/half.h"
#include "kernels/layout.h"
#include "kernels/small_floats.h"
#include "kernels/table.h"

namespace pyrite {

namespace {

constexpr int kGroups = 8;  // of four columns, in a block

// Where a group's bits lie in an area whose codes have `bits` bits.
struct Place {
  int vector, shift;
};

Place place_of(int group, int bits) {
  const int vectors = bits;  // of 64 bytes, in a block
  return {group % vectors, group / vectors * bits};
}

// Four codes of a lane at once: codes stay in their bytes, for they have at most `bits` bits.
void put_bits(const uint32_t* groups, int lane, int bits, int from_bit, uint8_t* vectors) {
  const uint32_t mask = 0x01010101u * ((1u << bits) - 1);
  for (int group = 0; group < kGroups; ++group) {
    const Place place = place_of(group, bits);
    uint8_t* at = vectors + 64 * place.vector + 4 * lane;
    uint32_t word;
    std::memcpy(&word, at, 4);
    word |= (groups[group] >> from_bit & mask) << place.shift;
    std::memcpy(at, &word, 4);
  }
}

void take_bits(const uint8_t* vectors, int lane, int bits, int to_bit, uint32_t* groups) {
  const uint32_t mask = 0x01010101u * ((1u << bits) - 1);
  for (int group = 0; group < kGroups; ++group) {
    const Place place = place_of(group, bits);
    uint32_t word;
    std::memcpy(&word, vectors + 64 * place.vector + 4 * lane, 4);
    groups[group] |= (word >> place.shift & mask) << to_bit;
  }
}

int steps_of(const WeightTraits& traits) {
  return kBlock / traits.step_columns * traits.step_bytes();
}

// Where the parts of one block of a panel start; the float16 are those of its file block.
template <class Byte>
struct BlockParts {
  Byte *low, *high, *steps, *halves;
};

template <class Byte>
BlockParts<Byte> parts_of(WeightType type, int columns, Byte* panel, int block) {
  const WeightTraits traits = traits_of(type);
  const int in_unit = block % kUnitBlocks;
  const int unit_start = block - in_unit;
  const UnitAreas areas = unit_areas(type, std::min(kUnitBlocks, columns / kBlock - unit_start));
  Byte* unit = panel + unit_start / kUnitBlocks * unit_bytes(type);
  const int file_block = in_unit / (traits.file_columns / kBlock);
  return {unit + areas.low + in_unit * 64 * traits.low_bits,
          unit + areas.high + in_unit * 64 * traits.high_bits,
          unit + areas.steps + in_unit * steps_of(traits) * kPanelRows,
          unit + areas.halves + file_block * 2 * kPanelRows * traits.num_halves};
}

void pack_halves(WeightType type, const uint8_t* block, int lane, uint8_t* to) {
  uint16_t halves[2];
  read_halves(type, block, halves);
  for (int i = 0; i < traits_of(type).num_halves; ++i) {
    std::memcpy(to + 2 * (i * kPanelRows + lane), halves + i, 2);
  }
}

// Part `part`, of 32 columns, of a block of the file.
void pack_block(WeightType type, const uint8_t* block, int part, int lane,
                const BlockParts<uint8_t>& to) {
  const WeightTraits traits = traits_of(type);
  alignas(4) uint8_t codes[kBlock];
  read_codes(type, block, part, codes);
  uint32_t groups[kGroups];
  std::memcpy(groups, codes, sizeof groups);
  put_bits(groups, lane, traits.low_bits, 0, to.low);
  if (traits.high_bits) put_bits(groups, lane, traits.high_bits, traits.low_bits, to.high);
  uint8_t steps[2];
  read_steps(type, block, part, steps);
  for (int i = 0; i < steps_of(traits); ++i) to.steps[i * kPanelRows + lane] = steps[i];
  if (part == 0) pack_halves(type, block, lane, to.halves);
}

void pack_quantised_row(WeightType type, int columns, const uint8_t* row, int lane,
                        uint8_t* panel) {
  const WeightTraits traits = traits_of(type);
  const int parts = traits.file_columns / kBlock;
  for (int block = 0; block < columns / kBlock; ++block) {
    pack_block(type, row + block / parts * traits.file_bytes, block % parts, lane,
               parts_of(type, columns, panel, block));
  }
}

void pack_float_row(int value_bytes, int columns, const uint8_t* row, int lane, uint8_t* panel) {
  for (int column = 0; column < columns; ++column) {
    std::memcpy(panel + (size_t(column) * kPanelRows + lane) * value_bytes,
                row + size_t(column) * value_bytes, value_bytes);
  }
}

void unpack_float_row(WeightType type, int columns, const uint8_t* panel, int lane, float* out) {
  const int value_bytes = traits_of(type).file_bytes;
  for (int column = 0; column < columns; ++column) {
    uint32_t bits = 0;
    std::memcpy(&bits, panel + (size_t(column) * kPanelRows + lane) * value_bytes, value_bytes);
    out[column] = type == WeightType::F16    ? float_from_half(uint16_t(bits))
                  : type == WeightType::BF16 ? std::bit_cast<float>(bits << 16)
                                             : std::bit_cast<float>(bits);
  }
}

float float_of_byte(WeightType type, uint8_t bits) {
  return type == WeightType::E4M3 ? float_from_half(half_of_bits_e4m3(bits)) * kUnitE4M3
                                  : float_from_half(half_of_bits_e5m2(bits));
}

// Where the codes and the scales of 128 columns of a panel of 8-bit floats start.
template <class Byte>
struct ScaledParts {
  Byte *codes, *scales;
};

template <class Byte>
ScaledParts<Byte> scaled_parts_of(int columns, Byte* panel, int block) {
  const int unit_start = block / 2 * kScaledUnitColumns;
  const int unit_columns = std::min(kScaledUnitColumns, columns - unit_start);
  Byte* unit = panel + block / 2 * scaled_unit_bytes(kScaledUnitColumns);
  return {unit + size_t(block % 2) * kScaleColumns * kPanelRows,
          unit + size_t(unit_columns) * kPanelRows + block % 2 * kPanelRows * sizeof(float)};
}

void pack_scaled_row(int columns, const uint8_t* row, int lane, uint8_t* panel) {
  for (int block = 0; block < columns / kScaleColumns; ++block) {
    const ScaledParts<uint8_t> to = scaled_parts_of(columns, panel, block);
    std::memcpy(to.scales + lane * sizeof(float), row, sizeof(float));
    row += sizeof(float);
    for (int i = 0; i < kScaleColumns; ++i) to.codes[scaled_code_place(i, lane)] = row[i];
    row += kScaleColumns;
  }
}

void unpack_scaled_row(WeightType type, int columns, const uint8_t* panel, int lane, float* out) {
  for (int block = 0; block < columns / kScaleColumns; ++block, out += kScaleColumns) {
    const ScaledParts<const uint8_t> from = scaled_parts_of(columns, panel, block);
    float scale;
    std::memcpy(&scale, from.scales + lane * sizeof(float), sizeof(float));
    for (int i = 0; i < kScaleColumns; ++i) {
      out[i] = float_of_byte(type, from.codes[scaled_code_place(i, lane)]) * scale;
    }
  }
}

float half_at(const uint8_t* halves, int lane) {
  uint16_t bits;
  std::memcpy(&bits, halves + 2 * lane, 2);
  return float_from_half(bits);
}

struct Affine {
  float step, offset;
};

// Step and offset of step `s` of a block, in dequant's order of operations.
Affine affine_of(WeightType type, const BlockParts<const uint8_t>& from, int s, int lane) {
  const WeightTraits traits = traits_of(type);
  const float scale = traits.num_halves > 0 ? half_at(from.halves, lane) * traits.unit : 0.0f;
  const float second = traits.num_halves > 1 ? half_at(from.halves, kPanelRows + lane) : 0.0f;
  if (traits.steps == Steps::kNone) return {scale, second};
  const uint8_t* steps = from.steps + lane;
  const uint8_t step = steps[s * kPanelRows];
  switch (traits.steps) {
    case Steps::kNibbles: return {scale * float(step & 15), -(second * float(step >> 4))};
    case Steps::kLeast: return {scale * float(step), -(second * float(steps[kPanelRows]))};
    case Steps::kShifted: {
      const float own = scale * float(step & 15);
      return {own, -(own * (step >> 4 ? 1.125f : 0.875f))};
    }
    case Steps::kPower: return {half_of_e8m0(step), 0.0f};
    case Steps::kSmall: return {half_of_e4m3(step), 0.0f};
    default: return {scale * float(int8_t(step)), 0.0f};
  }
}

void unpack_block(WeightType type, const BlockParts<const uint8_t>& from, int lane, float* out) {
  const WeightTraits traits = traits_of(type);
  uint32_t groups[kGroups] = {};
  take_bits(from.low, lane, traits.low_bits, 0, groups);
  if (traits.high_bits) take_bits(from.high, lane, traits.high_bits, traits.low_bits, groups);
  uint8_t codes[kBlock];
  std::memcpy(codes, groups, sizeof codes);
  for (int s = 0; s < kBlock / traits.step_columns; ++s) {
    const Affine affine = affine_of(type, from, s, lane);
    for (int column = s * traits.step_columns; column < (s + 1) * traits.step_columns; ++column) {
      const int code = traits.values ? traits.values[codes[column]] : codes[column];
      const float value = float(code - traits.zero) * affine.step;
      out[column] = traits.has_offset() ? value + affine.offset : value;
    }
  }
}

}  // namespace

size_t packed_panel_bytes(WeightType type, int columns) {
  const WeightTraits traits = traits_of(type);
  size_t bytes = size_t(columns) * kPanelRows * traits.file_bytes;
  if (traits.is_scaled_float()) {
    bytes = columns / kScaledUnitColumns * scaled_unit_bytes(kScaledUnitColumns) +
            scaled_unit_bytes(columns % kScaledUnitColumns);
  } else if (!traits.is_float()) {
    const int blocks = columns / kBlock;
    bytes = blocks / kUnitBlocks * unit_bytes(type) + unit_areas(type, blocks % kUnitBlocks).end;
  }
  return (bytes + 63) / 64 * 64;
}

void pack_panels(WeightType type, int rows, int columns, const uint8_t* source, int first_panel,
                 int num_panels, uint8_t* destination) {
  const WeightTraits traits = traits_of(type);
  const size_t panel_bytes = packed_panel_bytes(type, columns);
  const size_t row_bytes = size_t(columns) / traits.file_columns * traits.file_bytes;
  for (int p = first_panel; p < first_panel + num_panels; ++p, destination += panel_bytes) {
    std::memset(destination, 0, panel_bytes);
    const int lanes = std::min(kPanelRows, rows - p * kPanelRows);
    for (int lane = 0; lane < lanes; ++lane) {
      const uint8_t* row = source + size_t(p * kPanelRows + lane) * row_bytes;
      if (traits.is_scaled_float()) {
        pack_scaled_row(columns, row, lane, destination);
      } else if (traits.is_float()) {
        pack_float_row(traits.file_bytes, columns, row, lane, destination);
      } else {
        pack_quantised_row(type, columns, row, lane, destination);
      }
    }
  }
}

void unpack_row(const PackedMatrix& matrix, int row, float* out) {
  const uint8_t* panel = matrix.data + size_t(row / kPanelRows) * matrix.panel_bytes;
  const int lane = row % kPanelRows;
  if (traits_of(matrix.type).is_scaled_float()) {
    return unpack_scaled_row(matrix.type, matrix.columns, panel, lane, out);
  }
  if (traits_of(matrix.type).is_float()) {
    return unpack_float_row(matrix.type, matrix.columns, panel, lane, out);
  }
  for (int block = 0; block < matrix.columns / kBlock; ++block) {
    unpack_block(matrix.type, parts_of(matrix.type, matrix.columns, panel, block), lane,
                 out + block * kBlock);
  }
}

}  // namespace pyrite
