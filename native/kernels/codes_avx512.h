// Codes as one AVX-512 register, with VNNI's dot products of four bytes. See codes.h.

struct Codes {
  __m512i all;
};

// Of a panel, whose units start at multiples of 32, or of a chunk.
PYRITE_INLINE Codes load_codes(const uint8_t* from) { return {_mm512_loadu_si512(from)}; }
PYRITE_INLINE Codes keep_bits(Codes a, int mask) {
  return {_mm512_and_si512(a.all, _mm512_set1_epi8(char(mask)))};
}
PYRITE_INLINE Codes shift_codes(Codes a, int n) {
  if (n >= 0) return {_mm512_slli_epi16(a.all, unsigned(n))};
  return {_mm512_srli_epi16(a.all, unsigned(-n))};
}
PYRITE_INLINE Codes join(Codes a, Codes b) { return {_mm512_or_si512(a.all, b.all)}; }
PYRITE_INLINE Codes look_up(Codes codes, const uint8_t* table) {
  const __m512i values = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)table));
  return {_mm512_shuffle_epi8(values, codes.all)};
}

struct Ints {
  __m512i all;
};

PYRITE_INLINE Lanes to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.all)}; }
template <class T>
PYRITE_INLINE Ints bytes_as_ints(const uint8_t* from) {
  const __m128i bytes = _mm_loadu_si128((const __m128i*)from);
  if constexpr (std::is_signed_v<T>) return {_mm512_cvtepi8_epi32(bytes)};
  return {_mm512_cvtepu8_epi32(bytes)};
}
PYRITE_INLINE Lanes fused_once(Lanes a, Lanes b, Lanes c) { return fused(a, b, c); }

PYRITE_INLINE __m512i broadcast_32(const void* from) {
  int32_t value;
  std::memcpy(&value, from, 4);
  return _mm512_set1_epi32(value);
}

PYRITE_INLINE Ints load_ints(const int32_t* from) { return {_mm512_load_si512(from)}; }
PYRITE_INLINE void store_ints(int32_t* to, Ints a) { _mm512_store_si512(to, a.all); }
PYRITE_INLINE Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.all, b.all)}; }
PYRITE_INLINE Ints operator*(Ints a, Ints b) { return {_mm512_mullo_epi32(a.all, b.all)}; }
PYRITE_INLINE Ints subtract_raised(Ints a, const int32_t* n, int bits) {
  const __m512i raised = _mm512_sllv_epi32(broadcast_32(n), _mm512_set1_epi32(bits));
  return {_mm512_sub_epi32(a.all, raised)};
}

// Products of bytes: a plane of activations at a time, codes as they are.
template <int kPlaneCount>
struct ByteDot {
  static constexpr uint32_t kForm = kPlanes;
  static constexpr int kGroupBytes = 64;
  static constexpr size_t kBlockBytes = plane_block_bytes(kPlaneCount);
  static constexpr int kStepBytes = 4;
  static constexpr int kMostRows = 8;

  struct Sum {
    __m512i low, high;
  };

  static size_t place(const ActivationAreas& areas) { return areas.planes; }
  static void put(uint8_t* to, Codes codes) { _mm512_store_si512(to, codes.all); }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const uint8_t* rows,
                                         size_t stride) {
    const __m512i code = _mm512_load_si512(codes);
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* q = rows + r * stride;
      sums[r].low = _mm512_dpbusd_epi32(sums[r].low, code, broadcast_32(q));
      if constexpr (kPlaneCount == 2) {
        sums[r].high = _mm512_dpbusd_epi32(sums[r].high, code, broadcast_32(q + 32));
      }
    }
  }
  static Ints whole(Sum sum) {
    if constexpr (kPlaneCount == 1) return {sum.low};
    return {_mm512_add_epi32(_mm512_slli_epi32(sum.high, 8), sum.low)};
  }
};

template <int kBits, int kPlaneCount, int kSteps>
using DotFor = ByteDot<kPlaneCount>;
