// Codes as one AVX-512 register, with VNNI's dot products of four bytes. See codes.h.

struct Codes {
  __m512i all;
};

inline Codes load_codes(const uint8_t* from) { return {_mm512_load_si512(from)}; }
inline Codes keep_bits(Codes a, int mask) {
  return {_mm512_and_si512(a.all, _mm512_set1_epi8(char(mask)))};
}
inline Codes shift_codes(Codes a, int n) {
  if (n >= 0) return {_mm512_slli_epi16(a.all, unsigned(n))};
  return {_mm512_srli_epi16(a.all, unsigned(-n))};
}
inline Codes join(Codes a, Codes b) { return {_mm512_or_si512(a.all, b.all)}; }
inline Codes look_up(Codes codes, const uint8_t* table) {
  const __m512i values = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)table));
  return {_mm512_shuffle_epi8(values, codes.all)};
}

struct Ints {
  __m512i all;
};

inline Ints subtract_all(Ints a, int32_t n) {
  return {_mm512_sub_epi32(a.all, _mm512_set1_epi32(n))};
}
inline Lanes to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.all)}; }
template <class T>
inline Lanes bytes_as_floats(const uint8_t* from) {
  const __m128i bytes = _mm_loadu_si128((const __m128i*)from);
  if constexpr (std::is_signed_v<T>) return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
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

inline __m512i broadcast_32(const void* from) {
  int32_t value;
  std::memcpy(&value, from, 4);
  return _mm512_set1_epi32(value);
}

// Products of bytes: a plane of activations at a time, codes as they are.
template <int kPlaneCount>
struct ByteDot {
  static constexpr uint32_t kForm = kPlanes;
  static constexpr int kGroupBytes = 64;
  static constexpr int kMostRows = 8;

  struct Row {
    const int8_t *high, *low;
  };
  struct Sum {
    __m512i high, low;
  };

  static Row row(const uint8_t* data, const ActivationAreas& areas) {
    return {reinterpret_cast<const int8_t*>(data + areas.high),
            reinterpret_cast<const int8_t*>(data + areas.low)};
  }
  static void put(uint8_t* to, Codes codes) { _mm512_store_si512(to, codes.all); }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const Row* rows,
                                         int column) {
    const __m512i code = _mm512_load_si512(codes);
    for (int r = 0; r < kRows; ++r) {
      sums[r].low = _mm512_dpbusd_epi32(sums[r].low, code, broadcast_32(rows[r].low + column));
      if constexpr (kPlaneCount == 2) {
        sums[r].high = _mm512_dpbusd_epi32(sums[r].high, code, broadcast_32(rows[r].high + column));
      }
    }
  }
  static Ints whole(Sum sum) {
    if constexpr (kPlaneCount == 1) return {sum.low};
    return {_mm512_add_epi32(_mm512_slli_epi32(sum.high, 8), sum.low)};
  }
};

template <int kBits, int kPlaneCount>
using DotFor = ByteDot<kPlaneCount>;
