// Products with 8-bit floats under float32 scales: 16 outputs in lanes, in float32.
//
// A run of 32 columns is summed by itself, in ascending order, one fused multiply-add for each; then
//   total = fused(sum, scale, total)
// Runs go in ascending order, whoever sums several at once. So tiles of any number of rows do the same,
// and few rows have enough sums under way that none waits for the one before.

namespace product {

constexpr int kRunColumns = 32;
constexpr int kBlockRuns = kScaleColumns / kRunColumns;  // under one scale
constexpr int kRunLines = kRunColumns / 4;  // of four columns each: a cache line of codes
constexpr int kBlockLines = kBlockRuns * kRunLines + 1;  // with the scales

// Runs that are summed at once, so that with all rows they are as many sums as registers are for.
constexpr int runs_together(int rows) {
  return 4 * rows <= kFloatRows ? 4 : 2 * rows <= kFloatRows ? 2 : 1;
}

// Scales as what they multiply is loaded.
template <WeightType kType>
PYRITE_INLINE Lanes load_scales(const uint8_t* from) {
  const Lanes scales = load(reinterpret_cast<const float*>(from));
  if constexpr (kType == WeightType::E4M3) return scales * broadcast(kUnitE4M3);
  return scales;
}

// The columns of a block as they are packed, four at a time. Lines ahead are asked for, each once.
template <WeightType kType>
struct ScaledCodes {
  const uint8_t* codes;
  const uint8_t* ahead;

  PYRITE_INLINE void ask_for(int line) const {
    __builtin_prefetch(ahead + kFarAhead + 64 * line, 0, 2);
    __builtin_prefetch(ahead + kNearAhead + 64 * line, 0, 3);
  }
  struct Line {
    Lanes columns[4];

    PYRITE_INLINE Lanes column(int c) const { return columns[c]; }
  };

  PYRITE_INLINE Line open(int line) const {
    ask_for(line);
    Line opened;
    if constexpr (kType == WeightType::E4M3) load_e4m3(codes + 64 * line, opened.columns);
    if constexpr (kType == WeightType::E5M2) load_e5m2(codes + 64 * line, opened.columns);
    return opened;
  }
};

// The same, widened: each column is loaded when it is used.
struct WideCodes {
  struct Line {
    const float* data;

    PYRITE_INLINE Lanes column(int c) const { return load(data + c * kPanelRows); }
  };

  const float* data;

  PYRITE_INLINE Line open(int line) const { return {data + 4 * line * kPanelRows}; }
};

// Adds the columns under one scale to the totals (kRows, 16); `rows` are `stride` bytes apart.
template <int kRows, class Weights>
PYRITE_INLINE void scaled_tile(const Weights& weights, Lanes scale, const uint8_t* rows,
                               size_t stride, float* totals) {
  constexpr int kTogether = runs_together(kRows);
  for (int run = 0; run < kBlockRuns; run += kTogether) {
    Lanes sums[kTogether][kRows];
    for (int t = 0; t < kTogether; ++t) {
      for (int r = 0; r < kRows; ++r) sums[t][r] = broadcast(0.0f);
    }
    for (int i = 0; i < kRunLines; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < kTogether; ++t) {
        const int line = (run + t) * kRunLines + i;
        const auto opened = weights.open(line);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) {
          const Lanes of_column = opened.column(c);
          for (int r = 0; r < kRows; ++r) {
            const float* row = reinterpret_cast<const float*>(rows + r * stride);
            sums[t][r] = fused_once(of_column, broadcast(row[4 * line + c]), sums[t][r]);
          }
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      Lanes total = load(totals + r * kPanelRows);
      for (int t = 0; t < kTogether; ++t) total = fused_once(sums[t][r], scale, total);
      store(totals + r * kPanelRows, total);
    }
  }
}

// Tiles of `size` rows, at most kRows, then what is left.
template <int kRows, class Weights>
inline void scaled_tiles(const Weights& weights, Lanes scale, const uint8_t* rows, size_t stride,
                         int num_rows, int size, float* totals) {
  for (; size >= kRows && num_rows >= kRows; num_rows -= kRows) {
    scaled_tile<kRows>(weights, scale, rows, stride, totals);
    rows += kRows * stride;
    totals += kRows * kPanelRows;
  }
  if constexpr (kRows > 1) {
    if (num_rows > 0) {
      scaled_tiles<kRows - 1>(weights, scale, rows, stride, num_rows, size, totals);
    }
  }
}

// The columns under one scale for some rows, in tiles as few and as even as they can be.
template <WeightType kType>
inline void add_block(const ScaledCodes<kType>& weights, Lanes scale, const uint8_t* rows,
                      size_t stride, int num_rows, float* totals) {
  weights.ask_for(kBlockLines - 1);
  if (num_rows <= kFloatRows) {
    return scaled_tiles<kFloatRows>(weights, scale, rows, stride, num_rows, num_rows, totals);
  }
  alignas(64) float wide[kScaleColumns * kPanelRows];
  for (int line = 0; line < kBlockLines - 1; ++line) {
    const auto opened = weights.open(line);
    for (int c = 0; c < 4; ++c) store(wide + (4 * line + c) * kPanelRows, opened.column(c));
  }
  const int tiles = (num_rows + kFloatRows - 1) / kFloatRows;
  const int size = (num_rows + tiles - 1) / tiles;
  scaled_tiles<kFloatRows>(WideCodes{wide}, scale, rows, stride, num_rows, size, totals);
}

static_assert(kFloatColumns == kScaledUnitColumns);

template <WeightType kType>
[[gnu::noinline]] void add_unit(const uint8_t* unit, int columns, const uint8_t* rows,
                                size_t stride, int num_rows, float* totals) {
  const uint8_t* scales = unit + size_t(columns) * kPanelRows;
  for (int block = 0; block < columns / kScaleColumns; ++block) {
    const ScaledCodes<kType> weights{unit + block * kScaleColumns * kPanelRows,
                                     unit + block * kBlockLines * 64};
    const Lanes scale = load_scales<kType>(scales + block * kPanelRows * sizeof(float));
    add_block(weights, scale, rows, stride, num_rows, totals);
    rows += kScaleColumns * sizeof(float);
  }
}

template <WeightType kType>
void multiply_scaled_floats(const PackedMatrix& matrix, int first_panel, int num_panels,
                            const Activations& in, int first_row, int num_rows, float* out,
                            size_t stride) {
  multiply_panels_of_floats(add_unit<kType>, matrix, first_panel, num_panels, in, first_row,
                            num_rows, scaled_unit_bytes(kScaledUnitColumns), out, stride);
}

}  // namespace product
