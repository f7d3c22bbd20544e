// Codes as two AVX2 registers. See codes.h.

struct Codes {
  __m256i low, high;
};

inline __m256i load_256(const uint8_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}
inline void store_256(uint8_t* to, __m256i a) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), a);
}

inline Codes load_codes(const uint8_t* from) { return {load_256(from), load_256(from + 32)}; }
inline Codes keep_bits(Codes a, int mask) {
  const __m256i all = _mm256_set1_epi8(char(mask));
  return {_mm256_and_si256(a.low, all), _mm256_and_si256(a.high, all)};
}
inline Codes shift_codes(Codes a, int n) {
  if (n >= 0) return {_mm256_slli_epi16(a.low, n), _mm256_slli_epi16(a.high, n)};
  return {_mm256_srli_epi16(a.low, -n), _mm256_srli_epi16(a.high, -n)};
}
inline Codes join(Codes a, Codes b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
inline Codes look_up(Codes codes, const uint8_t* table) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)table));
  return {_mm256_shuffle_epi8(values, codes.low), _mm256_shuffle_epi8(values, codes.high)};
}

struct Ints {
  __m256i low, high;
};

inline Ints subtract_all(Ints a, int32_t n) {
  const __m256i all = _mm256_set1_epi32(n);
  return {_mm256_sub_epi32(a.low, all), _mm256_sub_epi32(a.high, all)};
}
inline Lanes to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

template <class T>
inline __m256 eight_bytes_as_floats(const uint8_t* from) {
  const __m128i bytes = _mm_loadl_epi64((const __m128i*)from);
  if constexpr (std::is_signed_v<T>) return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}
template <class T>
inline Lanes bytes_as_floats(const uint8_t* from) {
  return {eight_bytes_as_floats<T>(from), eight_bytes_as_floats<T>(from + 8)};
}
// Of bytes with a number in each half.
inline Lanes low_nibbles_as_floats(const uint8_t* from) {
  alignas(16) uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = from[i] & 15;
  return bytes_as_floats<uint8_t>(bytes);
}
inline Lanes high_nibbles_as_floats(const uint8_t* from) {
  alignas(16) uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = from[i] >> 4;
  return bytes_as_floats<uint8_t>(bytes);
}
inline Lanes fused_once(Lanes a, Lanes b, Lanes c) { return fused(a, b, c); }

inline __m256i broadcast_32(const void* from) {
  int32_t value;
  std::memcpy(&value, from, 4);
  return _mm256_set1_epi32(value);
}

// 16-bit products: codes are kept as words, columns 0 and 2 of a group before 1 and 3. Two planes
// cost no more than one, nothing can overflow, and codes may have 8 bits.
struct WordDot {
  static constexpr uint32_t kForm = kWords;
  static constexpr int kGroupBytes = 128;
  static constexpr int kMostRows = 4;

  struct Row {
    const int16_t* words;
  };
  using Sum = Ints;

  static Row row(const uint8_t* data, const ActivationAreas& areas) {
    return {reinterpret_cast<const int16_t*>(data + areas.words)};
  }
  static void put(uint8_t* to, Codes codes) {
    const __m256i even = _mm256_set1_epi16(0xff);
    store_256(to, _mm256_and_si256(codes.low, even));
    store_256(to + 32, _mm256_and_si256(codes.high, even));
    store_256(to + 64, _mm256_srli_epi16(codes.low, 8));
    store_256(to + 96, _mm256_srli_epi16(codes.high, 8));
  }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const Row* rows,
                                         int column) {
    for (int pair = 0; pair < 2; ++pair) {
      const __m256i low = load_256(codes + 64 * pair);
      const __m256i high = load_256(codes + 64 * pair + 32);
      for (int r = 0; r < kRows; ++r) {
        const __m256i q = broadcast_32(rows[r].words + column + 2 * pair);
        sums[r].low = _mm256_add_epi32(sums[r].low, _mm256_madd_epi16(low, q));
        sums[r].high = _mm256_add_epi32(sums[r].high, _mm256_madd_epi16(high, q));
      }
    }
  }
  static Ints whole(Sum sum) { return sum; }
};

// Products of bytes, a plane of activations at a time, for codes below 16: eight products of a pair
// stay within 8 * 2 * 15 * 128 = 30720, so that a block adds up in 16 bits and is widened once.
// With two planes and steps of 16 columns (codes of fewer bits) words are as fast or faster.
template <int kPlaneCount>
struct ByteDot {
  static constexpr uint32_t kForm = kPlanes;
  static constexpr int kGroupBytes = 64;
  static constexpr int kMostRows = kPlaneCount == 1 ? 4 : 2;

  struct Row {
    const int8_t* planes[2];  // low, high
  };
  struct Sum {
    Ints planes[2];  // of int16
  };

  static Row row(const uint8_t* data, const ActivationAreas& areas) {
    return {{reinterpret_cast<const int8_t*>(data + areas.low),
             reinterpret_cast<const int8_t*>(data + areas.high)}};
  }
  static void put(uint8_t* to, Codes codes) {
    store_256(to, codes.low);
    store_256(to + 32, codes.high);
  }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const Row* rows,
                                         int column) {
    const Codes code = load_codes(codes);
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPlaneCount; ++p) {
        const __m256i q = broadcast_32(rows[r].planes[p] + column);
        Ints& sum = sums[r].planes[p];
        sum.low = _mm256_add_epi16(sum.low, _mm256_maddubs_epi16(code.low, q));
        sum.high = _mm256_add_epi16(sum.high, _mm256_maddubs_epi16(code.high, q));
      }
    }
  }
  static Ints widened(Ints sum, int16_t factor) {
    const __m256i all = _mm256_set1_epi16(factor);
    return {_mm256_madd_epi16(sum.low, all), _mm256_madd_epi16(sum.high, all)};
  }
  static Ints whole(const Sum& sum) {
    const Ints low = widened(sum.planes[0], 1);
    if constexpr (kPlaneCount == 1) return low;
    const Ints high = widened(sum.planes[1], 256);
    return {_mm256_add_epi32(high.low, low.low), _mm256_add_epi32(high.high, low.high)};
  }
};

template <int kBits, int kPlaneCount>
using DotFor = std::conditional_t<(kBits == 4 || (kBits < 4 && kPlaneCount == 1)),
                                  ByteDot<kPlaneCount>, WordDot>;
