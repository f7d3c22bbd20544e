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

// q of a block, as whole numbers in floats, and its scale. A block with an infinity or NaN gets the
// scale NaN, which spoils every sum that it is part of: such input must stay in sight.
inline float quantise(const float* row, float limit, float* q) {
  const float largest = largest_magnitude(row);
  if (!(largest >= kSmallest && largest <= std::numeric_limits<float>::max())) {
    for (int i = 0; i < kBlock; ++i) q[i] = 0;
    return largest < kSmallest ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = limit / largest;
  for (int i = 0; i < kBlock; ++i) q[i] = (row[i] * inverse + kRoundingShift) - kRoundingShift;
  return largest / limit;
}

using Four = float [[gnu::vector_size(16)]];

// Sums of 16 columns, by columns within a four; whole numbers below 2^24, so exact in any order.
struct FourSums {
  Four of;

  float pair(int i) const { return of[2 * i] + of[2 * i + 1]; }
  float all() const { return pair(0) + pair(1); }
};

inline FourSums sums_of(const float* q) {
  Four four[4];
  std::memcpy(four, q, sizeof four);
  return {(four[0] + four[1]) + (four[2] + four[3])};
}

inline BlockHead head_of(const FourSums* halves, float scale) {
  const float first = halves[0].all();
  const float second = halves[1].all();
  const float sum = first + second;
  return {scale, int32_t(sum), scale * sum, {int32_t(first), int32_t(second)},
          {scale * first, scale * second}, 0.0f};
}

inline void put_planes(const BlockHead& head, const float* q, int planes, uint8_t* out) {
  std::memcpy(out, &head, sizeof head);
  int8_t* low = reinterpret_cast<int8_t*>(out + sizeof head);
  for (int i = 0; i < kBlock; ++i) low[i] = int8_t(int32_t(q[i]));
  if (planes == 1) return;
  for (int i = 0; i < kBlock; ++i) low[kBlock + i] = int8_t((int32_t(q[i]) + 128) >> 8);
}

inline void put_bytes(const BlockHead& from, const FourSums* halves, const float* q,
                      uint8_t* out) {
  PairHead head{from.scale, from.value, {from.half_values[0], from.half_values[1]}, {}, {}, 0.0f};
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 2; ++i) {
      head.less_half_pairs[half][i] = int16_t(-halves[half].pair(i));
      head.less_pairs[i] += head.less_half_pairs[half][i];
    }
  }
  std::memcpy(out, &head, sizeof head);
  int8_t* bytes = reinterpret_cast<int8_t*>(out + sizeof head);
  for (int i = 0; i < kBlock; ++i) bytes[i] = int8_t(int32_t(q[i]));
}

inline void put_words(const BlockHead& head, const float* q, uint8_t* out) {
  std::memcpy(out, &head, sizeof head);
  int16_t in_order[kBlock];
  for (int i = 0; i < kBlock; ++i) in_order[i] = int16_t(int32_t(q[i]));
  int16_t* words = reinterpret_cast<int16_t*>(out + sizeof head);
  for (int i = 0; i < kBlock; i += 4) {
    words[i] = in_order[i];
    words[i + 1] = in_order[i + 2];
    words[i + 2] = in_order[i + 1];
    words[i + 3] = in_order[i + 3];
  }
}

inline void prepare_row(const float* row, int columns, int planes, uint32_t forms, uint8_t* out) {
  const ActivationAreas areas = activation_areas(columns, planes, forms);
  if (forms & kFloats) std::memcpy(out + areas.floats, row, size_t(columns) * sizeof(float));
  if (!(forms & (kPlanes | kWords | kBytes))) return;
  const float limit = planes == 2 ? kLargestWord : kLargestByte;
  for (int block = 0; block < columns / kBlock; ++block) {
    float q[kBlock];
    const float scale = quantise(row + block * kBlock, limit, q);
    const FourSums halves[] = {sums_of(q), sums_of(q + 16)};
    const BlockHead head = head_of(halves, scale);
    if (forms & kPlanes) {
      put_planes(head, q, planes, out + areas.planes + block * plane_block_bytes(planes));
    }
    if (forms & kWords) put_words(head, q, out + areas.words + block * kWordBlockBytes);
    if (forms & kBytes) put_bytes(head, halves, q, out + areas.bytes + block * kByteBlockBytes);
  }
}

inline size_t activation_bytes(int columns, int planes, uint32_t forms) {
  return activation_areas(columns, planes, forms).end;
}

}  // namespace prepare
