// Lanes as two AVX2 registers. See lanes.h.

struct Lanes {
  __m256 low, high;
};

PYRITE_INLINE Lanes load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
PYRITE_INLINE void store(float* to, Lanes a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
PYRITE_INLINE Lanes load_half(const uint16_t* from) {
  const __m128i* half = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}
PYRITE_INLINE Lanes halves_as_floats(__m256i halves) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
// Of two columns the codes of a row are a word: those of the first are its low byte.
PYRITE_INLINE void load_e4m3(const uint8_t* from, Lanes* to) {
  const __m256i kept = _mm256_set1_epi16(int16_t(0xbf80));
  for (int i = 0; i < 4; i += 2, from += 32) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i first = _mm256_srai_epi16(_mm256_slli_epi16(words, 8), 1);
    to[i] = halves_as_floats(_mm256_and_si256(first, kept));
    to[i + 1] = halves_as_floats(_mm256_and_si256(_mm256_srai_epi16(words, 1), kept));
  }
}
PYRITE_INLINE void load_e5m2(const uint8_t* from, Lanes* to) {
  const __m256i kept = _mm256_set1_epi16(int16_t(0xff00));
  for (int i = 0; i < 4; i += 2, from += 32) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    to[i] = halves_as_floats(_mm256_slli_epi16(words, 8));
    to[i + 1] = halves_as_floats(_mm256_and_si256(words, kept));
  }
}
PYRITE_INLINE void store_half(uint16_t* to, Lanes a) {
  __m128i* half = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(half, _mm256_cvtps_ph(a.low, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(half + 1, _mm256_cvtps_ph(a.high, _MM_FROUND_TO_NEAREST_INT));
}
PYRITE_INLINE Lanes load_bytes(const int8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
PYRITE_INLINE __m128i whole_words(__m256 a) {
  const __m256i whole = _mm256_cvtps_epi32(a);
  return _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
}
PYRITE_INLINE void store_bytes(int8_t* to, Lanes a) {
  const __m128i bytes = _mm_packs_epi16(whole_words(a.low), whole_words(a.high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}
PYRITE_INLINE Lanes broadcast(float value) {
  const __m256 all = _mm256_set1_ps(value);
  return {all, all};
}

PYRITE_INLINE Lanes add(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
PYRITE_INLINE Lanes subtract(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
PYRITE_INLINE Lanes multiply(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
PYRITE_INLINE Lanes divide(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
PYRITE_INLINE Lanes fused(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
PYRITE_INLINE Lanes minimum(Lanes a, Lanes b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
PYRITE_INLINE Lanes maximum(Lanes a, Lanes b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
PYRITE_INLINE Lanes round_even(Lanes a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
}
PYRITE_INLINE __m256 power2(__m256 n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
PYRITE_INLINE Lanes power2(Lanes n) { return {power2(n.low), power2(n.high)}; }

PYRITE_INLINE __m256 keep(__m256 a, int low, int high, __m256 b) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i under = _mm256_cmpgt_epi32(_mm256_set1_epi32(low), lane);
  const __m256i over = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(high));
  return _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_or_si256(under, over)));
}
PYRITE_INLINE Lanes keep(Lanes a, int low, int high, Lanes b) {
  return {keep(a.low, low, high, b.low), keep(a.high, low - 8, high - 8, b.high)};
}
PYRITE_INLINE float largest(Lanes a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
PYRITE_INLINE bool finite(Lanes a) {
  const __m256 low = _mm256_sub_ps(a.low, a.low);
  const __m256 high = _mm256_sub_ps(a.high, a.high);
  const __m256 zero = _mm256_setzero_ps();
  const __m256 same = _mm256_and_ps(_mm256_cmp_ps(low, zero, _CMP_EQ_OQ),
                                    _mm256_cmp_ps(high, zero, _CMP_EQ_OQ));
  return _mm256_movemask_ps(same) == 0xff;
}
