// Turns a row of activations into what the kernels read. See activations.h. Only operations that
// round the same way everywhere are used, in loops that compilers turn into vector code.

namespace prepare {

constexpr float kLargestWord = 32639;  // 127 * 256 + 127
constexpr float kLargestByte = 127;
constexpr float kSmallest = 0x1p-100f;  // a block below this is taken as zeros
constexpr float kRoundingShift = 12582912;  // 1.5 * 2^23 leaves no room for a fraction

// The largest |x|. Magnitudes are compared as integers, so that NaN counts as the largest.
inline float largest_magnitude(const float* row) {
  int32_t most = 0;
  for (int i = 0; i < kBlock; ++i) {
    int32_t bits;
    std::memcpy(&bits, row + i, 4);
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
  }
  return std::bit_cast<float>(most);
}

// q of a block and its scale. A block with an infinity or NaN gets the scale NaN, which spoils
// every sum that it is part of: such input must stay in sight.
inline float quantise(const float* row, float limit, int16_t* q) {
  const float largest = largest_magnitude(row);
  if (!(largest >= kSmallest && largest <= std::numeric_limits<float>::max())) {
    for (int i = 0; i < kBlock; ++i) q[i] = 0;
    return largest < kSmallest ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = limit / largest;
  for (int i = 0; i < kBlock; ++i) {
    q[i] = int16_t(int32_t((row[i] * inverse + kRoundingShift) - kRoundingShift));
  }
  return largest / limit;
}

template <class T>
inline T* at(uint8_t* out, size_t offset) {
  return reinterpret_cast<T*>(out + offset);
}

inline void put_sums(const int16_t* q, float scale, int block, const ActivationAreas& areas,
                     uint8_t* out) {
  int32_t first = 0;
  int32_t second = 0;
  for (int i = 0; i < 16; ++i) {
    first += q[i];
    second += q[i + 16];
  }
  at<float>(out, areas.scales)[block] = scale;
  at<int32_t>(out, areas.sums)[block] = first + second;
  at<int32_t>(out, areas.half_sums)[2 * block] = first;
  at<int32_t>(out, areas.half_sums)[2 * block + 1] = second;
  at<float>(out, areas.values)[block] = scale * float(first + second);
  at<float>(out, areas.half_values)[2 * block] = scale * float(first);
  at<float>(out, areas.half_values)[2 * block + 1] = scale * float(second);
}

inline void put_planes(const int16_t* q, int planes, int8_t* high, int8_t* low) {
  for (int i = 0; i < kBlock; ++i) low[i] = int8_t(q[i]);
  if (planes == 1) return;
  for (int i = 0; i < kBlock; ++i) high[i] = int8_t((q[i] + 128) >> 8);
}

inline void put_words(const int16_t* q, int16_t* words) {
  for (int i = 0; i < kBlock; i += 4) {
    words[i] = q[i];
    words[i + 1] = q[i + 2];
    words[i + 2] = q[i + 1];
    words[i + 3] = q[i + 3];
  }
}

inline void prepare_row(const float* row, int columns, int planes, uint32_t forms, uint8_t* out) {
  const ActivationAreas areas = activation_areas(columns, planes, forms);
  if (forms & kFloats) std::memcpy(out + areas.floats, row, size_t(columns) * sizeof(float));
  if (!(forms & (kPlanes | kWords))) return;
  const float limit = planes == 2 ? kLargestWord : kLargestByte;
  for (int block = 0; block < columns / kBlock; ++block) {
    int16_t q[kBlock];
    const int column = block * kBlock;
    const float scale = quantise(row + column, limit, q);
    put_sums(q, scale, block, areas, out);
    if (forms & kPlanes) {
      put_planes(q, planes, at<int8_t>(out, areas.high) + column,
                 at<int8_t>(out, areas.low) + column);
    }
    if (forms & kWords) put_words(q, at<int16_t>(out, areas.words) + column);
  }
}

inline size_t activation_bytes(int columns, int planes, uint32_t forms) {
  return activation_areas(columns, planes, forms).end;
}

}  // namespace prepare
