// Lanes as one AVX-512 register. See lanes.h.

struct Lanes {
  __m512 all;
};

PYRITE_INLINE __mmask16 first_lanes(int count) { return __mmask16((1u << count) - 1); }

PYRITE_INLINE Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
PYRITE_INLINE void store(float* to, Lanes a) { _mm512_storeu_ps(to, a.all); }
PYRITE_INLINE Lanes load_part(const float* from, int count) {
  return {_mm512_maskz_loadu_ps(first_lanes(count), from)};
}
PYRITE_INLINE void store_part(float* to, Lanes a, int count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), a.all);
}
PYRITE_INLINE Lanes load_half(const uint16_t* from) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
// Columns 0 and 2, or 1 and 3.
PYRITE_INLINE void halves_as_floats(__m512i halves, Lanes& low, Lanes& high) {
  low = {_mm512_cvtph_ps(_mm512_castsi512_si256(halves))};
  high = {_mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))};
}
// Of two columns the codes of a row are a word: those of the first are its low byte.
PYRITE_INLINE void load_e4m3(const uint8_t* from, Lanes* to) {
  const __m512i kept = _mm512_set1_epi16(int16_t(0xbf80));
  const __m512i words = _mm512_loadu_si512(from);
  const __m512i first = _mm512_srai_epi16(_mm512_slli_epi16(words, 8), 1);
  halves_as_floats(_mm512_and_si512(first, kept), to[0], to[2]);
  halves_as_floats(_mm512_and_si512(_mm512_srai_epi16(words, 1), kept), to[1], to[3]);
}
PYRITE_INLINE void load_e5m2(const uint8_t* from, Lanes* to) {
  const __m512i words = _mm512_loadu_si512(from);
  halves_as_floats(_mm512_slli_epi16(words, 8), to[0], to[2]);
  const __m512i kept = _mm512_set1_epi16(int16_t(0xff00));
  halves_as_floats(_mm512_and_si512(words, kept), to[1], to[3]);
}
PYRITE_INLINE void store_half(uint16_t* to, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(a.all, _MM_FROUND_TO_NEAREST_INT));
}
PYRITE_INLINE Lanes load_bytes(const int8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
PYRITE_INLINE void store_bytes(int8_t* to, Lanes a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.all)));
}
PYRITE_INLINE Lanes broadcast(float value) { return {_mm512_set1_ps(value)}; }

PYRITE_INLINE Lanes add(Lanes a, Lanes b) { return {_mm512_add_ps(a.all, b.all)}; }
PYRITE_INLINE Lanes subtract(Lanes a, Lanes b) { return {_mm512_sub_ps(a.all, b.all)}; }
PYRITE_INLINE Lanes multiply(Lanes a, Lanes b) { return {_mm512_mul_ps(a.all, b.all)}; }
PYRITE_INLINE Lanes divide(Lanes a, Lanes b) { return {_mm512_div_ps(a.all, b.all)}; }
PYRITE_INLINE Lanes fused(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.all, b.all, c.all)}; }
PYRITE_INLINE Lanes minimum(Lanes a, Lanes b) { return {_mm512_min_ps(a.all, b.all)}; }
PYRITE_INLINE Lanes maximum(Lanes a, Lanes b) { return {_mm512_max_ps(a.all, b.all)}; }
PYRITE_INLINE Lanes round_even(Lanes a) {
  return {_mm512_roundscale_ps(a.all, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
PYRITE_INLINE Lanes power2(Lanes n) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.all), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
PYRITE_INLINE Lanes keep(Lanes a, int low, int high, Lanes b) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __mmask16 kept = _mm512_cmp_epi32_mask(lane, _mm512_set1_epi32(low), _MM_CMPINT_NLT) &
                         _mm512_cmp_epi32_mask(lane, _mm512_set1_epi32(high), _MM_CMPINT_LE);
  return {_mm512_mask_blend_ps(kept, b.all, a.all)};
}
PYRITE_INLINE float largest(Lanes a) { return _mm512_reduce_max_ps(a.all); }
PYRITE_INLINE bool finite(Lanes a) {
  const __m512 zero = _mm512_sub_ps(a.all, a.all);
  return _mm512_cmp_ps_mask(zero, _mm512_setzero_ps(), _CMP_EQ_OQ) == 0xffff;
}
