// Products with float weights: 16 outputs in lanes, columns in ascending order, one fused
// multiply-add for each, in float32. For many rows, weights of 16 bits are widened once into the
// first cache; for few, they go straight into the products, and what comes soon is asked for.

namespace product {

#if defined(__AVX512F__)
constexpr int kFloatRows = 12;
#elif defined(__AVX2__)
constexpr int kFloatRows = 6;  // twelve sums: none waits for the one before
#elif defined(__aarch64__) && !defined(PYRITE_PORTABLE)
constexpr int kFloatRows = 4;
#else
constexpr int kFloatRows = 2;
#endif
constexpr int kFloatColumns = 256;  // of a panel, at a time

inline Lanes brain_floats(const uint8_t* from) {
  alignas(64) uint32_t bits[16];
  for (int i = 0; i < 16; ++i) {
    uint16_t half;
    std::memcpy(&half, from + 2 * i, 2);
    bits[i] = uint32_t(half) << 16;
  }
  return load(reinterpret_cast<const float*>(bits));
}

// Weights of a panel as they are packed. `column(i)` is called in ascending order.
template <WeightType kType>
struct PackedFloats {
  static constexpr size_t kColumnBytes = kPanelRows * traits_of(kType).file_bytes;
  const uint8_t* data;

  PYRITE_INLINE Lanes column(int i) const {
    const uint8_t* from = data + size_t(i) * kColumnBytes;
    __builtin_prefetch(from + kFarAhead, 0, 2);
    __builtin_prefetch(from + kNearAhead, 0, 3);
    if constexpr (kType == WeightType::F32) return load(reinterpret_cast<const float*>(from));
    if constexpr (kType == WeightType::F16) {
      return load_half(reinterpret_cast<const uint16_t*>(from));
    }
    return brain_floats(from);
  }
};

// The same, widened.
struct WideFloats {
  const float* data;

  PYRITE_INLINE Lanes column(int i) const { return load(data + i * kPanelRows); }
};

// Adds some columns to the totals (kRows, 16); `rows` are `stride` bytes apart.
template <int kRows, class Weights>
PYRITE_INLINE void float_tile(const Weights& weights, int columns, const uint8_t* rows,
                              size_t stride, float* totals) {
  Lanes total[kRows];
  for (int r = 0; r < kRows; ++r) total[r] = load(totals + r * kPanelRows);
  for (int column = 0; column < columns; ++column) {
    const Lanes of_column = weights.column(column);
    for (int r = 0; r < kRows; ++r) {
      const float* row = reinterpret_cast<const float*>(rows + r * stride);
      total[r] = fused_once(of_column, broadcast(row[column]), total[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) store(totals + r * kPanelRows, total[r]);
}

// Tiles of `size` rows, at most kRows, then what is left.
template <int kRows, class Weights>
inline void float_tiles(const Weights& weights, int columns, const uint8_t* rows, size_t stride,
                        int num_rows, int size, float* totals) {
  for (; size >= kRows && num_rows >= kRows; num_rows -= kRows) {
    float_tile<kRows>(weights, columns, rows, stride, totals);
    rows += kRows * stride;
    totals += kRows * kPanelRows;
  }
  if constexpr (kRows > 1) {
    if (num_rows > 0) {
      float_tiles<kRows - 1>(weights, columns, rows, stride, num_rows, size, totals);
    }
  }
}

// As few tiles as there can be, as even as they can be.
template <class Weights>
inline void even_float_tiles(const Weights& weights, int columns, const uint8_t* rows,
                             size_t stride, int num_rows, float* totals) {
  const int tiles = (num_rows + kFloatRows - 1) / kFloatRows;
  const int size = (num_rows + tiles - 1) / tiles;
  float_tiles<kFloatRows>(weights, columns, rows, stride, num_rows, size, totals);
}

// Some columns of a panel for some rows.
template <WeightType kType>
inline void add_columns(const PackedFloats<kType>& weights, int columns, const uint8_t* rows,
                        size_t stride, int num_rows, float* totals) {
  if (kType == WeightType::F32 || num_rows <= kFloatRows) {
    return even_float_tiles(weights, columns, rows, stride, num_rows, totals);
  }
  alignas(64) float wide[kFloatColumns * kPanelRows];
  for (int i = 0; i < columns; ++i) store(wide + i * kPanelRows, weights.column(i));
  even_float_tiles(WideFloats{wide}, columns, rows, stride, num_rows, totals);
}

// Totals (num_panels, kTotalRows, 16) of adjacent panels, some columns after the others, so that the
// rows' part of these stays in a near cache while it meets each panel. `add` is as add_columns; its
// columns of a panel are `chunk_bytes`.
template <class Add>
PYRITE_INLINE void multiply_chunks(const Add& add, const PackedMatrix& matrix, const uint8_t* first,
                                   int num_panels, const uint8_t* rows, size_t stride, int num_rows,
                                   size_t chunk_bytes, float* totals) {
  constexpr int kPanelTotals = kTotalRows * kPanelRows;
  for (int p = 0; p < num_panels; ++p) {
    std::memset(totals + p * kPanelTotals, 0, size_t(num_rows) * kPanelRows * sizeof(float));
  }
  for (int column = 0; column < matrix.columns; column += kFloatColumns, first += chunk_bytes) {
    const int count = std::min(kFloatColumns, matrix.columns - column);
    for (int p = 0; p < num_panels; ++p) {
      add(first + p * matrix.panel_bytes, count, rows + column * sizeof(float), stride, num_rows,
          totals + p * kPanelTotals);
    }
  }
}

// With many rows several panels go together; with few, each is read from memory in one stream.
template <class Add>
inline void multiply_panels_of_floats(const Add& add, const PackedMatrix& matrix, int first_panel,
                                      int num_panels, const Activations& in, int first_row,
                                      int num_rows, size_t chunk_bytes, float* out, size_t stride) {
  const size_t place = activation_areas(in.columns, in.planes, in.forms).floats;
  const uint8_t* rows = in.data + size_t(first_row) * in.row_bytes + place;
  const int together = num_rows > kFloatRows ? kPanelsTogether : 1;
  alignas(64) float totals[kPanelsTogether * kTotalRows * kPanelRows];
  for (int p = 0; p < num_panels; p += together) {
    const uint8_t* data = matrix.data + size_t(first_panel + p) * matrix.panel_bytes;
    const int some = std::min(together, num_panels - p);
    for (int row = 0; row < num_rows; row += kTotalRows) {
      const int count = std::min(num_rows - row, kTotalRows);
      multiply_chunks(add, matrix, data, some, rows + row * in.row_bytes, in.row_bytes, count,
                      chunk_bytes, totals);
      for (int i = 0; i < some; ++i) {
        put_totals(totals + i * kTotalRows * kPanelRows, count,
                   matrix.rows - (first_panel + p + i) * kPanelRows,
                   out + row * stride + (p + i) * kPanelRows, stride);
      }
    }
  }
}

template <WeightType kType>
[[gnu::noinline]] void add_chunk(const uint8_t* chunk, int columns, const uint8_t* rows,
                                 size_t stride, int num_rows, float* totals) {
  add_columns(PackedFloats<kType>{chunk}, columns, rows, stride, num_rows, totals);
}

template <WeightType kType>
void multiply_floats(const PackedMatrix& matrix, int first_panel, int num_panels,
                     const Activations& in, int first_row, int num_rows, float* out,
                     size_t stride) {
  constexpr size_t kChunkBytes = kFloatColumns * PackedFloats<kType>::kColumnBytes;
  multiply_panels_of_floats(add_chunk<kType>, matrix, first_panel, num_panels, in, first_row,
                            num_rows, kChunkBytes, out, stride);
}

}  // namespace product
