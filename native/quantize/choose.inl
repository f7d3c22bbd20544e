// choose_less(a, b, x, y): in each lane x where a < b, else y. Plain lanes have it already.

#if defined(__AVX512F__)
PYRITE_INLINE Lanes choose_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.all, b.all, _CMP_LT_OQ), y.all, x.all)};
}
#elif defined(__AVX2__)
PYRITE_INLINE Lanes choose_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
#elif defined(__aarch64__) && !defined(PYRITE_PORTABLE)
PYRITE_INLINE Lanes choose_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return {vbslq_f32(vcltq_f32(a.first, b.first), x.first, y.first),
          vbslq_f32(vcltq_f32(a.second, b.second), x.second, y.second),
          vbslq_f32(vcltq_f32(a.third, b.third), x.third, y.third),
          vbslq_f32(vcltq_f32(a.fourth, b.fourth), x.fourth, y.fourth)};
}
#endif

PYRITE_INLINE Lanes magnitude(Lanes a) { return maximum(a, broadcast(0.0f) - a); }

// 1 / a, and 0 where a is too small for a scale: float16 ends at 6e-8.
PYRITE_INLINE Lanes inverse(Lanes a) {
  const Lanes small = broadcast(1e-10f);
  return choose_less(magnitude(a), small, broadcast(0.0f), broadcast(1.0f) / a);
}

// a / b for b >= 0, and 0 where b is 0.
PYRITE_INLINE Lanes quotient(Lanes a, Lanes b) {
  const Lanes zero = broadcast(0.0f);
  return choose_less(zero, b, a / maximum(b, broadcast(1e-30f)), zero);
}

// What float16 makes of `a`; its bits go to `half`.
PYRITE_INLINE Lanes as_half(Lanes a, uint16_t* half) {
  store_half(half, a);
  return load_half(half);
}

// In each lane the sum of the kSpan lanes of its superblock, halves folded together.
template <int kSpan>
PYRITE_INLINE Lanes sum_of_span(Lanes a) {
  float lane[16], folded[16];
  store(lane, a);
  for (int half = kSpan / 2; half > 0; half /= 2) {
    for (int first = 0; first < 16; first += kSpan) {
      for (int i = 0; i < half; ++i) lane[first + i] += lane[first + i + half];
    }
  }
  for (int i = 0; i < 16; ++i) folded[i] = lane[i / kSpan * kSpan];
  return load(folded);
}

// In each lane that one of its superblock's lanes whose magnitude is the largest, the first of several.
template <int kSpan>
PYRITE_INLINE Lanes extreme_of_span(Lanes a) {
  float lane[16], most[16];
  store(lane, a);
  for (int first = 0; first < 16; first += kSpan) {
    float found = lane[first];
    for (int i = 1; i < kSpan; ++i) {
      const float next = lane[first + i];
      if ((next < 0 ? -next : next) > (found < 0 ? -found : found)) found = next;
    }
    for (int i = 0; i < kSpan; ++i) most[first + i] = found;
  }
  return load(most);
}
