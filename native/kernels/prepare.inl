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

inline BlockHead head_of(const int16_t* q, float scale) {
  int32_t first = 0;
  int32_t second = 0;
  for (int i = 0; i < 16; ++i) {
    first += q[i];
    second += q[i + 16];
  }
  const int32_t sum = first + second;
  return {scale, sum, scale * float(sum), {first, second},
          {scale * float(first), scale * float(second)}, 0.0f};
}

inline void put_planes(const BlockHead& head, const int16_t* q, int planes, uint8_t* out) {
  std::memcpy(out, &head, sizeof head);
  int8_t* low = reinterpret_cast<int8_t*>(out + sizeof head);
  for (int i = 0; i < kBlock; ++i) low[i] = int8_t(q[i]);
  if (planes == 1) return;
  for (int i = 0; i < kBlock; ++i) low[kBlock + i] = int8_t((q[i] + 128) >> 8);
}

inline void put_bytes(const BlockHead& from, const int16_t* q, uint8_t* out) {
  PairHead head{from.scale, from.value, {from.half_values[0], from.half_values[1]}, {}, {}, 0.0f};
  int8_t* bytes = reinterpret_cast<int8_t*>(out + sizeof head);
  for (int i = 0; i < kBlock; ++i) {
    bytes[i] = int8_t(q[i]);
    head.less_half_pairs[i / 16][i / 2 % 2] -= q[i];
  }
  for (int i = 0; i < 2; ++i) {
    head.less_pairs[i] = head.less_half_pairs[0][i] + head.less_half_pairs[1][i];
  }
  std::memcpy(out, &head, sizeof head);
}

inline void put_words(const BlockHead& head, const int16_t* q, uint8_t* out) {
  std::memcpy(out, &head, sizeof head);
  int16_t* words = reinterpret_cast<int16_t*>(out + sizeof head);
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
  if (!(forms & (kPlanes | kWords | kBytes))) return;
  const float limit = planes == 2 ? kLargestWord : kLargestByte;
  for (int block = 0; block < columns / kBlock; ++block) {
    int16_t q[kBlock];
    const BlockHead head = head_of(q, quantise(row + block * kBlock, limit, q));
    if (forms & kPlanes) {
      put_planes(head, q, planes, out + areas.planes + block * plane_block_bytes(planes));
    }
    if (forms & kWords) put_words(head, q, out + areas.words + block * kWordBlockBytes);
    if (forms & kBytes) put_bytes(head, q, out + areas.bytes + block * kByteBlockBytes);
  }
}

inline size_t activation_bytes(int columns, int planes, uint32_t forms) {
  return activation_areas(columns, planes, forms).end;
}

}  // namespace prepare
