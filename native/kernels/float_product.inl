// Products with float weights: 16 outputs in lanes, columns in ascending order, one fused
// multiply-add for each, in float32.

namespace product {

#if defined(__AVX512F__)
constexpr int kFloatRows = 8;
#elif defined(__AVX2__) || (defined(__aarch64__) && !defined(PYRITE_PORTABLE))
constexpr int kFloatRows = 4;
#else
constexpr int kFloatRows = 2;
#endif

inline Lanes brain_floats(const uint8_t* from) {
  alignas(64) uint32_t bits[16];
  for (int i = 0; i < 16; ++i) {
    uint16_t half;
    std::memcpy(&half, from + 2 * i, 2);
    bits[i] = uint32_t(half) << 16;
  }
  return load(reinterpret_cast<const float*>(bits));
}

template <WeightType kType>
inline Lanes weights_of_column(const uint8_t* panel, int column) {
  const uint8_t* from = panel + size_t(column) * kPanelRows * traits_of(kType).file_bytes;
  if constexpr (kType == WeightType::F32) return load(reinterpret_cast<const float*>(from));
  if constexpr (kType == WeightType::F16) return load_half(reinterpret_cast<const uint16_t*>(from));
  return brain_floats(from);
}

template <WeightType kType, int kRows>
inline void float_tile(const uint8_t* panel, int lanes, const Activations& in, size_t place,
                       int first_row, float* out, size_t stride) {
  const float* rows[kRows];
  Lanes total[kRows];
  for (int r = 0; r < kRows; ++r) {
    const uint8_t* data = in.data + size_t(first_row + r) * in.row_bytes + place;
    rows[r] = reinterpret_cast<const float*>(data);
    total[r] = broadcast(0.0f);
  }
  for (int column = 0; column < in.columns; ++column) {
    const Lanes weights = weights_of_column<kType>(panel, column);
    for (int r = 0; r < kRows; ++r) {
      total[r] = fused_once(weights, broadcast(rows[r][column]), total[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (lanes >= kPanelRows) {
      store(out + r * stride, total[r]);
    } else {
      store_part(out + r * stride, total[r], lanes);
    }
  }
}

template <WeightType kType, int kRows>
inline void float_tiles(const uint8_t* panel, int lanes, const Activations& in, size_t place,
                        int first_row, int num_rows, float* out, size_t stride) {
  for (; num_rows >= kRows; num_rows -= kRows, first_row += kRows, out += kRows * stride) {
    float_tile<kType, kRows>(panel, lanes, in, place, first_row, out, stride);
  }
  if constexpr (kRows > 1) {
    if (num_rows > 0) {
      float_tiles<kType, kRows / 2>(panel, lanes, in, place, first_row, num_rows, out, stride);
    }
  }
}

template <WeightType kType>
void multiply_floats(const PackedMatrix& matrix, int first_panel, int num_panels,
                     const Activations& in, int first_row, int num_rows, float* out,
                     size_t stride) {
  const size_t place = activation_areas(in.columns, in.planes, in.forms).floats;
  for (int p = 0; p < num_panels; ++p) {
    const uint8_t* panel = matrix.data + size_t(first_panel + p) * matrix.panel_bytes;
    const int lanes = matrix.rows - (first_panel + p) * kPanelRows;
    float_tiles<kType, kFloatRows>(panel, lanes, in, place, first_row, num_rows,
                                   out + p * kPanelRows, stride);
  }
}

}  // namespace product
