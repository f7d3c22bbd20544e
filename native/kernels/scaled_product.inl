// Products with 8-bit floats under float32 scales: 16 outputs in lanes, in float32.
//
// A run of 32 columns is summed by itself, in ascending order, one fused multiply-add for each; then
//   total = fused(sum, scale, total)
// Runs go in ascending order, whoever sums several at once. So tiles of any number of rows do the same,
// and few rows have enough sums under way that none waits for the one before.

namespace product {

constexpr int kRunColumns = 32;
constexpr int kBlockRuns = kScaleColumns / kRunColumns;  // under one scale
constexpr int kRunLines = kRunColumns * kPanelRows / 64;  // that a run's codes fill
constexpr int kBlockLines = kBlockRuns * kRunLines + 1;    // with the scales

// Runs that are summed at once, so that with all rows they are as many sums as registers are for.
constexpr int runs_together(int rows) {
  return 4 * rows <= kFloatRows ? 4 : 2 * rows <= kFloatRows ? 2 : 1;
}

template <WeightType kType>
PYRITE_INLINE Lanes load_codes_as_floats(const uint8_t* from) {
  if constexpr (kType == WeightType::E4M3) return load_e4m3(from);
  return load_e5m2(from);
}

// Scales as what they multiply is loaded.
template <WeightType kType>
PYRITE_INLINE Lanes load_scales(const uint8_t* from) {
  const Lanes scales = load(reinterpret_cast<const float*>(from));
  if constexpr (kType == WeightType::E4M3) return scales * broadcast(kUnitE4M3);
  return scales;
}

// The columns of a block as they are packed, and what is asked for meanwhile: each line once.
template <WeightType kType>
struct ScaledCodes {
  const uint8_t* codes;
  const uint8_t* ahead;

  PYRITE_INLINE Lanes column(int i) const {
    return load_codes_as_floats<kType>(codes + size_t(i) * kPanelRows);
  }
  PYRITE_INLINE void ask_for(int line) const {
    __builtin_prefetch(ahead + kFarAhead + 64 * line, 0, 2);
    __builtin_prefetch(ahead + kNearAhead + 64 * line, 0, 3);
  }
};

// The same, widened.
struct WideCodes {
  const float* data;

  PYRITE_INLINE Lanes column(int i) const { return load(data + i * kPanelRows); }
  PYRITE_INLINE void ask_for(int) const {}
};

// Adds the columns under one scale to the totals (kRows, 16); `rows` are `stride` bytes apart.
template <int kRows, class Weights>
PYRITE_INLINE void scaled_tile(const Weights& weights, Lanes scale, const uint8_t* rows,
                               size_t stride, float* totals) {
  constexpr int kTogether = runs_together(kRows);
  constexpr int kColumnsPerLine = kBlockRuns / kTogether;
  for (int run = 0; run < kBlockRuns; run += kTogether) {
    Lanes sums[kTogether][kRows];
    for (int t = 0; t < kTogether; ++t) {
      for (int r = 0; r < kRows; ++r) sums[t][r] = broadcast(0.0f);
    }
    for (int i = 0; i < kRunColumns; ++i) {
      if (i % kColumnsPerLine == 0) weights.ask_for(run * kRunLines + i / kColumnsPerLine);
      for (int t = 0; t < kTogether; ++t) {
        const int column = (run + t) * kRunColumns + i;
        const Lanes of_column = weights.column(column);
        for (int r = 0; r < kRows; ++r) {
          const float* row = reinterpret_cast<const float*>(rows + r * stride);
          sums[t][r] = fused_once(of_column, broadcast(row[column]), sums[t][r]);
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
  for (int i = 0; i < kScaleColumns; ++i) {
    if (i % kBlockRuns == 0) weights.ask_for(i / kBlockRuns);
    store(wide + i * kPanelRows, weights.column(i));
  }
  const int tiles = (num_rows + kFloatRows - 1) / kFloatRows;
  const int size = (num_rows + tiles - 1) / tiles;
  scaled_tiles<kFloatRows>(WideCodes{wide}, scale, rows, stride, num_rows, size, totals);
}

template <WeightType kType>
[[gnu::noinline]] void multiply_scaled_panel(const uint8_t* unit, int columns, const uint8_t* rows,
                                             size_t stride, int num_rows, float* totals) {
  std::memset(totals, 0, size_t(num_rows) * kPanelRows * sizeof(float));
  for (int start = 0; start < columns; start += kScaledUnitColumns) {
    const int count = std::min(kScaledUnitColumns, columns - start);
    const uint8_t* scales = unit + size_t(count) * kPanelRows;
    for (int block = 0; block < count / kScaleColumns; ++block) {
      const ScaledCodes<kType> weights{unit + block * kScaleColumns * kPanelRows,
                                       unit + block * kBlockLines * 64};
      const Lanes scale = load_scales<kType>(scales + block * kPanelRows * sizeof(float));
      add_block(weights, scale, rows, stride, num_rows, totals);
      rows += kScaleColumns * sizeof(float);
    }
    unit += scaled_unit_bytes(count);
  }
}

template <WeightType kType>
void multiply_scaled_floats(const PackedMatrix& matrix, int first_panel, int num_panels,
                            const Activations& in, int first_row, int num_rows, float* out,
                            size_t stride) {
  const size_t place = activation_areas(in.columns, in.planes, in.forms).floats;
  const uint8_t* rows = in.data + size_t(first_row) * in.row_bytes + place;
  alignas(64) float totals[kTotalRows * kPanelRows];
  for (int p = 0; p < num_panels; ++p) {
    const uint8_t* panel = matrix.data + size_t(first_panel + p) * matrix.panel_bytes;
    const int lanes = matrix.rows - (first_panel + p) * kPanelRows;
    for (int row = 0; row < num_rows; row += kTotalRows) {
      const int count = std::min(num_rows - row, kTotalRows);
      multiply_scaled_panel<kType>(panel, matrix.columns, rows + row * in.row_bytes, in.row_bytes,
                                   count, totals);
      put_totals(totals, count, lanes, out + row * stride + p * kPanelRows, stride);
    }
  }
}

}  // namespace product
