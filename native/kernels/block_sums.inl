// The exact sum of a block for some rows: of q * (code - zero), times the step where that is whole.

namespace product {

// What tiles know of a type.
template <int kStepCount, int kSumCount, bool kWholeSteps, bool kHasOffset>
struct BlockShape {
  static constexpr int kSteps = kStepCount;    // of a block
  static constexpr int kSums = kSumCount;      // of a block, that become floats one by one
  static constexpr bool kWhole = kWholeSteps;
  static constexpr bool kOffset = kHasOffset;  // and no zero; the others have one: 1 << zero_bits
};

template <WeightType kType, int kPlaneCount>
using DotOf = DotFor<traits_of(kType).code_bits(), kPlaneCount,
                     kBlock / traits_of(kType).step_columns>;

// With two planes and steps of 8 bits (Q6_K) half a block fills 32 bits: 16 * 32 * 128 * 32639 < 2^31.
// A whole block is next to that with 5 bits and steps of 6 (Q5_K): 32 * 31 * 63 * 32639. Of those with
// a table the largest are IQ2's: 32 * 43 * 31 * 32639.
// Float steps need a sum each.
template <WeightType kType>
constexpr int count_sums(int planes) {
  constexpr WeightTraits kTraits = traits_of(kType);
  if (!kTraits.has_whole_steps()) return kBlock / kTraits.step_columns;
  return kType == WeightType::Q6_K ? planes : 1;
}

template <WeightType kType, int kPlaneCount>
using ShapeOf =
    BlockShape<kBlock / traits_of(kType).step_columns, count_sums<kType>(kPlaneCount),
               traits_of(kType).has_whole_steps(), traits_of(kType).has_offset()>;

// A block is added up in so many sections, which have one step each.
template <class Dot, class Shape>
constexpr int count_sections() {
  if (is_folded<Dot>()) return Shape::kSums;
  if constexpr (is_narrow<Dot>()) {
    return std::max(Shape::kSteps, kGroups / Dot::run_groups(!Shape::kOffset));
  }
  return Shape::kSteps;
}

// Whether the Dot sums several groups itself, which have to lie in a chunk.
template <class Dot>
constexpr bool takes_steps() {
  return requires(const uint8_t* bytes, Ints* whole) {
    Dot::template sum_step<1, kGroups>(bytes, bytes, 0, whole);
  };
}

// The groups of a block whose codes lie in a chunk.
template <class Dot>
struct ChunkCodes {
  const uint8_t* data;

  PYRITE_INLINE const uint8_t* group(int g, uint8_t*) const { return data + g * Dot::kGroupBytes; }
};

// Adds kCount groups, the first of them `first`, to the sums of rows that start at `rows`.
template <class Dot, int kRows, int kCount, class Groups>
PYRITE_INLINE void add_groups(const Groups& codes, int first, const uint8_t* rows, size_t stride,
                              typename Dot::Sum* sums) {
#pragma GCC unroll 8
  for (int g = first; g < first + kCount; ++g) {
    alignas(64) uint8_t room[Dot::kGroupBytes];
    Dot::template add<kRows>(sums, codes.group(g, room), rows + g * Dot::kStepBytes, stride);
  }
}

// Sums of q * code over kCount groups, for each row: by the Dot itself where it takes several at once.
template <class Dot, int kRows, int kCount, class Groups>
PYRITE_INLINE void sum_groups(const Groups& codes, int first, const uint8_t* rows, size_t stride,
                              Ints* whole) {
  if constexpr (takes_steps<Dot>()) {
    Dot::template sum_step<kRows, kCount>(codes.group(first, nullptr),
                                          rows + first * Dot::kStepBytes, stride, whole);
  } else {
    typename Dot::Sum sums[kRows] = {};
    add_groups<Dot, kRows, kCount>(codes, first, rows, stride, sums);
    for (int r = 0; r < kRows; ++r) whole[r] = Dot::whole(sums[r]);
  }
}

// A section of a Dot that takes zeros and steps itself. `heads` are those of the block.
template <class Dot, class Shape, int kRows, class Groups>
PYRITE_INLINE void sum_narrow_section(const Groups& codes, const uint8_t* heads, size_t stride,
                                      int section, int zero_bits, const int32_t* step,
                                      Ints* whole) {
  constexpr int kSections = count_sections<Dot, Shape>();
  constexpr int kCount = kGroups / kSections;
  typename Dot::Sum sums[kRows] = {};
  if constexpr (!Shape::kOffset) {
    for (int r = 0; r < kRows; ++r) {
      const PairHead& head = *reinterpret_cast<const PairHead*>(heads + r * stride);
      sums[r] = Dot::start(kSections == 1 ? head.less_pairs : head.less_half_pairs[section],
                           zero_bits);
    }
  }
  add_groups<Dot, kRows, kCount>(codes, section * kCount, heads + sizeof(PairHead), stride, sums);
  for (int r = 0; r < kRows; ++r) {
    if constexpr (Shape::kWhole) {
      whole[r] = Dot::whole(sums[r], load_ints(step));
    } else {
      whole[r] = Dot::whole(sums[r]);
    }
  }
}

// The same of any other Dot.
template <class Dot, class Shape, int kRows, class Groups>
PYRITE_INLINE void sum_wide_section(const Groups& codes, const uint8_t* heads, size_t stride,
                                    int section, int zero_bits, const int32_t* step, Ints* whole) {
  constexpr int kSections = count_sections<Dot, Shape>();
  constexpr int kCount = kGroups / kSections;
  sum_groups<Dot, kRows, kCount>(codes, section * kCount, heads + sizeof(BlockHead), stride, whole);
  for (int r = 0; r < kRows; ++r) {
    if constexpr (!Shape::kOffset && !is_centred<Dot>()) {
      const BlockHead& head = *reinterpret_cast<const BlockHead*>(heads + r * stride);
      const int32_t* q = kSections == 1 ? &head.sum : head.half_sums + section;
      whole[r] = subtract_raised(whole[r], q, zero_bits);
    }
    if constexpr (Shape::kWhole && !is_folded<Dot>()) whole[r] = whole[r] * load_ints(step);
  }
}

// Section `section` of a block; its rows, with their heads, start at `heads`. `steps` are the block's.
template <class Dot, class Shape, int kRows, class Groups>
PYRITE_INLINE void sum_section(const Groups& codes, const uint8_t* heads, size_t stride,
                               int section, int zero_bits, const int32_t* steps, Ints* whole) {
  constexpr int kSections = count_sections<Dot, Shape>();
  steps += section * Shape::kSteps / kSections * kPanelRows;
  if constexpr (is_narrow<Dot>()) {
    sum_narrow_section<Dot, Shape, kRows>(codes, heads, stride, section, zero_bits, steps, whole);
  } else {
    sum_wide_section<Dot, Shape, kRows>(codes, heads, stride, section, zero_bits, steps, whole);
  }
}

}  // namespace product
