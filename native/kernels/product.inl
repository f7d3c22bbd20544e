// Products with quantised weights: 16 outputs in lanes, several rows of activations at once.
//
// For each step's columns (32, or 16) the sum of q * code is an exact integer; then
//   total = fused(sum - zero * sum of q, step * scale, total)
//   total = fused(offset, scale * sum of q, total)          for types with an offset
// in ascending order of columns. Tiles of any number of rows do the same, so a row's bits do not
// depend on its neighbours.

namespace product {

constexpr int kTotalRows = 64;  // rows whose totals are kept while a panel's columns go by

// Sums of q * code over the kCount groups of a step, for each row: by the Dot itself where it takes a
// step at once.
template <class Dot, int kRows, int kCount>
PYRITE_INLINE void sum_step(const uint8_t* codes, const uint8_t* rows, size_t stride, Ints* whole) {
  if constexpr (requires { Dot::template sum_step<kRows, kCount>(codes, rows, stride, whole); }) {
    Dot::template sum_step<kRows, kCount>(codes, rows, stride, whole);
  } else {
    typename Dot::Sum sums[kRows] = {};
#pragma GCC unroll 8
    for (int g = 0; g < kCount; ++g) {
      Dot::template add<kRows>(sums, codes + g * Dot::kGroupBytes, rows + g * Dot::kStepBytes,
                               stride);
    }
    for (int r = 0; r < kRows; ++r) whole[r] = Dot::whole(sums[r]);
  }
}

// Whether the Dot's codes are signed, so that its sums need no zero taken away.
template <class Dot>
constexpr bool is_centred() {
  if constexpr (requires { Dot::kCentred; }) return Dot::kCentred;
  return false;
}

// Adds a chunk's columns to the totals (kRows, 16) of some rows. `kSteps` is the steps of a block.
// Types with an offset have no zero, and the others have one: 1 << zero_bits.
template <class Dot, int kSteps, bool kOffset, int kRows>
PYRITE_INLINE void tile(const Chunk<Dot>& chunk, int num_blocks, int zero_bits,
                        const uint8_t* rows, size_t stride, float* totals) {
  const uint8_t* codes = chunk.codes;
  const float* steps = chunk.steps;
  const float* offsets = chunk.offsets;
  Lanes total[kRows];
  for (int r = 0; r < kRows; ++r) total[r] = load(totals + r * kPanelRows);
  for (int b = 0; b < num_blocks; ++b) {
#pragma GCC unroll 2
    for (int s = 0; s < kSteps; ++s) {
      constexpr int kCount = kGroups / kSteps;
      Ints whole[kRows];
      sum_step<Dot, kRows, kCount>(codes + s * kCount * Dot::kGroupBytes,
                                   rows + sizeof(BlockHead) + s * kCount * Dot::kStepBytes, stride,
                                   whole);
      const Lanes step = load(steps);
      for (int r = 0; r < kRows; ++r) {
        const BlockHead& head = *reinterpret_cast<const BlockHead*>(rows + r * stride);
        if constexpr (!kOffset && !is_centred<Dot>()) {
          const int32_t* sum = kSteps == 1 ? &head.sum : head.half_sums + s;
          whole[r] = subtract_raised(whole[r], sum, zero_bits);
        }
        total[r] = fused_once(to_floats(whole[r]), step * broadcast(head.scale), total[r]);
        if constexpr (kOffset) {
          const float value = kSteps == 1 ? head.value : head.half_values[s];
          total[r] = fused_once(load(offsets), broadcast(value), total[r]);
        }
      }
      steps += kPanelRows;
      offsets += kPanelRows;
    }
    codes += kGroups * Dot::kGroupBytes;
    rows += Dot::kBlockBytes;
  }
  for (int r = 0; r < kRows; ++r) store(totals + r * kPanelRows, total[r]);
}

// Tiles of kRows rows, then of half as many, down to one.
template <class Dot, int kSteps, bool kOffset, int kRows>
inline void tiles(const Chunk<Dot>& chunk, int num_blocks, int zero_bits, const uint8_t* rows,
                  size_t stride, int num_rows, float* totals) {
  for (; num_rows >= kRows; num_rows -= kRows) {
    tile<Dot, kSteps, kOffset, kRows>(chunk, num_blocks, zero_bits, rows, stride, totals);
    rows += kRows * stride;
    totals += kRows * kPanelRows;
  }
  if constexpr (kRows > 1) {
    if (num_rows > 0) {
      tiles<Dot, kSteps, kOffset, kRows / 2>(chunk, num_blocks, zero_bits, rows, stride, num_rows,
                                             totals);
    }
  }
}

inline void put_totals(const float* totals, int num_rows, int lanes, float* out, size_t stride) {
  for (int r = 0; r < num_rows; ++r) {
    const Lanes total = load(totals + r * kPanelRows);
    if (lanes >= kPanelRows) {
      store(out + r * stride, total);
    } else {
      store_part(out + r * stride, total, lanes);
    }
  }
}

template <class Dot>
using Widen = void (*)(const uint8_t* unit, int num_blocks, Chunk<Dot>& chunk);

template <class Dot>
struct Panel {
  Widen<Dot> widen;
  size_t unit_bytes;
  const uint8_t* data;
  int columns;
  int zero_bits;
};

// Totals (num_rows, 16) of a panel with rows that start at `rows`, where their form has its place.
template <class Dot, int kSteps, bool kOffset>
[[gnu::noinline]] void multiply_panel(const Panel<Dot>& panel, const uint8_t* rows, size_t stride,
                                      int num_rows, float* totals) {
  Chunk<Dot> chunk;
  const int blocks = panel.columns / kBlock;
  std::memset(totals, 0, size_t(num_rows) * kPanelRows * sizeof(float));
  const uint8_t* unit = panel.data;
  for (int block = 0; block < blocks; block += kChunkBlocks, unit += panel.unit_bytes) {
    const int count = blocks - block < kChunkBlocks ? blocks - block : kChunkBlocks;
    panel.widen(unit, count, chunk);
    tiles<Dot, kSteps, kOffset, Dot::kMostRows>(chunk, count, panel.zero_bits,
                                                rows + block * Dot::kBlockBytes, stride, num_rows,
                                                totals);
  }
}

template <WeightType kType, int kPlaneCount>
void multiply(const PackedMatrix& matrix, int first_panel, int num_panels, const Activations& in,
              int first_row, int num_rows, float* out, size_t out_stride) {
  constexpr WeightTraits kTraits = traits_of(kType);
  static_assert(kTraits.has_offset() == (kTraits.zero == 0));
  using Dot = DotFor<code_bits(kType), kPlaneCount>;
  Panel<Dot> panel{widen<kType, Dot>, unit_bytes(kType), nullptr, matrix.columns,
                   std::countr_zero(unsigned(kTraits.zero))};
  const size_t place = Dot::place(activation_areas(in.columns, in.planes, in.forms));
  const uint8_t* rows = in.data + size_t(first_row) * in.row_bytes + place;
  alignas(64) float totals[kTotalRows * kPanelRows];
  for (int p = 0; p < num_panels; ++p) {
    panel.data = matrix.data + size_t(first_panel + p) * matrix.panel_bytes;
    const int lanes = matrix.rows - (first_panel + p) * kPanelRows;
    for (int row = 0; row < num_rows; row += kTotalRows) {
      const int count = num_rows - row < kTotalRows ? num_rows - row : kTotalRows;
      multiply_panel<Dot, kBlock / kTraits.step_columns, kTraits.has_offset()>(
          panel, rows + row * in.row_bytes, in.row_bytes, count, totals);
      put_totals(totals, count, lanes, out + row * out_stride + p * kPanelRows, out_stride);
    }
  }
}

}  // namespace product
