// A chunk: a unit of a panel, widened once into the first cache, then used by every row.

namespace product {

constexpr int kChunkBlocks = kUnitBlocks;
constexpr int kGroups = 8;       // of four columns, in a block
constexpr int kMostSteps = 16;   // in a chunk
constexpr int kAhead = 12288;     // bytes that are fetched before they are widened

template <class Dot>
struct Chunk {
  alignas(64) uint8_t codes[kChunkBlocks * kGroups * Dot::kGroupBytes];
  alignas(64) float steps[kMostSteps * kPanelRows];
  alignas(64) int32_t whole_steps[kMostSteps * kPanelRows];  // of types that have them, under `scale`
  alignas(64) float scale[kPanelRows];
  alignas(64) float offsets[kMostSteps * kPanelRows];
};

// Codes of group `g` of a block whose areas start at `low` and `high`.
template <WeightType kType>
inline Codes group_codes(const uint8_t* low, const uint8_t* high, int g) {
  constexpr WeightTraits kTraits = traits_of(kType);
  constexpr int kLow = kTraits.low_bits;
  constexpr int kHigh = kTraits.high_bits;
  Codes codes = load_codes(low + 64 * (g % kLow));
  if constexpr (kLow < 8) {
    codes = keep_bits(shift_codes(codes, -(g / kLow * kLow)), (1 << kLow) - 1);
  }
  if constexpr (kHigh > 0) {
    const Codes rest = load_codes(high + 64 * (g % kHigh));
    const int shift = kLow - g / kHigh * kHigh;
    codes = join(codes, keep_bits(shift_codes(rest, shift), ((1 << kHigh) - 1) << kLow));
  }
  if constexpr (kTraits.values != nullptr) codes = look_up(codes, kTraits.values);
  return codes;
}

// The groups of a block as the Dot keeps them: folded, one after the other, or two at a time.
template <WeightType kType, class Dot>
PYRITE_INLINE void put_groups(const uint8_t* low, const uint8_t* high, const int32_t* whole_steps,
                              uint8_t* to) {
  constexpr WeightTraits kTraits = traits_of(kType);
  if constexpr (is_folded<Dot>()) {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      const int32_t* step = whole_steps + 4 * g / kTraits.step_columns * kPanelRows;
      Dot::template put_folded<kTraits.has_whole_steps()>(to + g * Dot::kGroupBytes,
                                                       group_codes<kType>(low, high, g),
                                                       kTraits.zero, step);
    }
  } else if constexpr (requires(Codes codes) { Dot::put_pair(to, codes, codes); }) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; g += 2) {
      Dot::put_pair(to + g * Dot::kGroupBytes, group_codes<kType>(low, high, g),
                    group_codes<kType>(low, high, g + 1));
    }
  } else {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      Dot::put(to + g * Dot::kGroupBytes, group_codes<kType>(low, high, g));
    }
  }
}

// With few rows the weights come from memory, and hardware stops to look ahead at each 4096 bytes.
inline void fetch_ahead(const uint8_t* from) { __builtin_prefetch(from + kAhead); }

template <WeightType kType, class Dot>
inline void widen_codes(const uint8_t* low, const uint8_t* high, int num_blocks,
                        Chunk<Dot>& chunk) {
  constexpr WeightTraits kTraits = traits_of(kType);
  for (int b = 0; b < num_blocks; ++b) {
#pragma GCC unroll 8
    for (int line = 0; line < kTraits.low_bits; ++line) fetch_ahead(low + 64 * line);
#pragma GCC unroll 8
    for (int line = 0; line < kTraits.high_bits; ++line) fetch_ahead(high + 64 * line);
    const int32_t* steps = chunk.whole_steps + b * kBlock / kTraits.step_columns * kPanelRows;
    put_groups<kType, Dot>(low, high, steps, chunk.codes + b * kGroups * Dot::kGroupBytes);
    low += 64 * kTraits.low_bits;
    high += 64 * kTraits.high_bits;
  }
}

inline Lanes halves_at(const uint8_t* from) {
  return load_half(reinterpret_cast<const uint16_t*>(from));
}

template <Steps kSteps>
PYRITE_INLINE Ints whole_step(const uint8_t* bytes) {
  if constexpr (kSteps == Steps::kNibbles || kSteps == Steps::kShifted) {
    return low_nibbles_as_ints(bytes);
  }
  if constexpr (kSteps == Steps::kLeast) return bytes_as_ints<uint8_t>(bytes);
  return bytes_as_ints<int8_t>(bytes);
}

template <Steps kSteps>
PYRITE_INLINE Lanes least_of(const uint8_t* bytes) {
  if constexpr (kSteps == Steps::kNibbles) return to_floats(high_nibbles_as_ints(bytes));
  if constexpr (kSteps == Steps::kShifted) {
    const Lanes quarters = to_floats(high_nibbles_as_ints(bytes)) * broadcast(0.25f);
    return to_floats(low_nibbles_as_ints(bytes)) * (broadcast(0.875f) + quarters);
  }
  return to_floats(bytes_as_ints<uint8_t>(bytes + kPanelRows));
}

// 2^(exponent - 128); what is below float32's normal numbers is a product of two that are not.
PYRITE_INLINE Lanes halves_of_e8m0(const uint8_t* exponents) {
  const Lanes power = to_floats(bytes_as_ints<uint8_t>(exponents)) - broadcast(128.0f);
  const Lanes normal = maximum(power, broadcast(-126.0f));
  return power2(normal) * power2(power - normal);
}

// E4M3 without a sign has the bits of binary16, but for the bias of its exponent.
PYRITE_INLINE Lanes halves_of_e4m3(const uint8_t* bytes) {
  alignas(32) uint16_t halves[kPanelRows];
  for (int i = 0; i < kPanelRows; ++i) halves[i] = uint16_t(bytes[i] << 7);
  return load_half(halves) * broadcast(0x1p7f);
}

template <Steps kSteps>
PYRITE_INLINE Lanes float_step(const uint8_t* bytes, Lanes scale) {
  if constexpr (kSteps == Steps::kScaled) return scale * to_floats(bytes_as_ints<int8_t>(bytes));
  if constexpr (kSteps == Steps::kPower) return halves_of_e8m0(bytes);
  if constexpr (kSteps == Steps::kSmall) return halves_of_e4m3(bytes);
  return scale;
}

template <class Dot>
PYRITE_INLINE Ints step_form(Ints step) {
  if constexpr (is_narrow<Dot>() || is_folded<Dot>()) return Dot::step_form(step);
  else return step;
}

// Steps and offsets of one block; they have a row of 16 for each step.
template <WeightType kType, class Dot>
PYRITE_INLINE void widen_steps(const uint8_t* bytes, Lanes scale, Lanes second, int row,
                               Chunk<Dot>& chunk) {
  constexpr WeightTraits kTraits = traits_of(kType);
  constexpr Steps kForm = kTraits.steps;
  for (int s = 0; s < kBlock / kTraits.step_columns; ++s, row += kPanelRows) {
    const uint8_t* at = bytes + s * kPanelRows * kTraits.step_bytes();
    Lanes offset = second;
    if constexpr (kTraits.has_whole_steps()) {
      store_ints(chunk.whole_steps + row, step_form<Dot>(whole_step<kForm>(at)));
      if constexpr (kTraits.has_offset()) offset = broadcast(0.0f) - second * least_of<kForm>(at);
    } else {
      store(chunk.steps + row, float_step<kForm>(at, scale));
    }
    if constexpr (kTraits.has_offset()) store(chunk.offsets + row, offset);
  }
}

// One block of a unit of `num_blocks`, the last unit of a panel being shorter.
template <WeightType kType>
struct PackedBlock {
  static constexpr WeightTraits kTraits = traits_of(kType);
  static constexpr int kSteps = kBlock / kTraits.step_columns;
  static constexpr int kFileBlocks = kTraits.file_columns / kBlock;

  const uint8_t *low, *high, *steps, *halves;

  PYRITE_INLINE PackedBlock(const uint8_t* unit, int num_blocks, int b) {
    const UnitAreas areas = unit_areas(kType, num_blocks);
    low = unit + areas.low + b * 64 * kTraits.low_bits;
    high = unit + areas.high + b * 64 * kTraits.high_bits;
    steps = unit + areas.steps + b * kSteps * kPanelRows * kTraits.step_bytes();
    halves = unit + areas.halves + b / kFileBlocks * 2 * kPanelRows * kTraits.num_halves;
  }
};

// Steps and offsets of a unit.
template <WeightType kType, class Dot>
PYRITE_INLINE void widen_unit_steps(const uint8_t* unit, int num_blocks, Chunk<Dot>& chunk) {
  constexpr WeightTraits kTraits = traits_of(kType);
  Lanes scale{};
  Lanes second{};
  for (int b = 0; b < num_blocks; ++b) {
    const PackedBlock<kType> block(unit, num_blocks, b);
    if (kTraits.num_halves > 0 && b % block.kFileBlocks == 0) {
      scale = halves_at(block.halves);
      if constexpr (kTraits.unit != 1) scale = scale * broadcast(kTraits.unit);
      second = kTraits.num_halves > 1 ? halves_at(block.halves + 32) : scale;
    }
    widen_steps<kType>(block.steps, scale, second, b * block.kSteps * kPanelRows, chunk);
  }
  if constexpr (kTraits.has_whole_steps()) store(chunk.scale, scale);
}

template <WeightType kType, class Dot>
inline void widen(const uint8_t* unit, int num_blocks, Chunk<Dot>& chunk) {
  const PackedBlock<kType> first(unit, num_blocks, 0);
  if constexpr (is_folded<Dot>()) widen_unit_steps<kType>(unit, num_blocks, chunk);
  widen_codes<kType, Dot>(first.low, first.high, num_blocks, chunk);
  if constexpr (!is_folded<Dot>()) widen_unit_steps<kType>(unit, num_blocks, chunk);
}

}  // namespace product
