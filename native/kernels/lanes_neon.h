// Lanes as four NEON registers. See lanes.h.

struct Lanes {
  float32x4_t first, second, third, fourth;
};

template <class Of>
PYRITE_INLINE Lanes each_four(Lanes a, Of of) {
  return {of(a.first), of(a.second), of(a.third), of(a.fourth)};
}
template <class Of>
PYRITE_INLINE Lanes each_four(Lanes a, Lanes b, Of of) {
  return {of(a.first, b.first), of(a.second, b.second), of(a.third, b.third),
          of(a.fourth, b.fourth)};
}

PYRITE_INLINE Lanes load(const float* from) {
  return {vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)};
}
PYRITE_INLINE void store(float* to, Lanes a) {
  vst1q_f32(to, a.first);
  vst1q_f32(to + 4, a.second);
  vst1q_f32(to + 8, a.third);
  vst1q_f32(to + 12, a.fourth);
}
PYRITE_INLINE Lanes halves_as_floats(uint16x8_t first, uint16x8_t second) {
  const float16x8_t low = vreinterpretq_f16_u16(first);
  const float16x8_t high = vreinterpretq_f16_u16(second);
  return {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low),
          vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high)};
}
PYRITE_INLINE Lanes load_half(const uint16_t* from) {
  return halves_as_floats(vld1q_u16(from), vld1q_u16(from + 8));
}
PYRITE_INLINE Lanes e4m3_as_floats(uint8x16_t codes) {
  const int8x16_t bytes = vreinterpretq_s8_u8(codes);
  const uint16x8_t kept = vdupq_n_u16(0xbfff);
  const uint16x8_t low = vreinterpretq_u16_s16(vshll_n_s8(vget_low_s8(bytes), 7));
  const uint16x8_t high = vreinterpretq_u16_s16(vshll_high_n_s8(bytes, 7));
  return halves_as_floats(vandq_u16(low, kept), vandq_u16(high, kept));
}
PYRITE_INLINE Lanes e5m2_as_floats(uint8x16_t codes) {
  return halves_as_floats(vshlq_n_u16(vmovl_u8(vget_low_u8(codes)), 8),
                          vshlq_n_u16(vmovl_high_u8(codes), 8));
}
PYRITE_INLINE void load_e4m3(const uint8_t* from, Lanes* to) {
  for (int i = 0; i < 4; i += 2, from += 32) {
    const uint8x16x2_t columns = vld2q_u8(from);
    to[i] = e4m3_as_floats(columns.val[0]);
    to[i + 1] = e4m3_as_floats(columns.val[1]);
  }
}
PYRITE_INLINE void load_e5m2(const uint8_t* from, Lanes* to) {
  for (int i = 0; i < 4; i += 2, from += 32) {
    const uint8x16x2_t columns = vld2q_u8(from);
    to[i] = e5m2_as_floats(columns.val[0]);
    to[i + 1] = e5m2_as_floats(columns.val[1]);
  }
}
PYRITE_INLINE void store_half(uint16_t* to, Lanes a) {
  const float16x8_t low = vcvt_high_f16_f32(vcvt_f16_f32(a.first), a.second);
  const float16x8_t high = vcvt_high_f16_f32(vcvt_f16_f32(a.third), a.fourth);
  vst1q_u16(to, vreinterpretq_u16_f16(low));
  vst1q_u16(to + 8, vreinterpretq_u16_f16(high));
}
PYRITE_INLINE Lanes words_as_floats(int16x8_t low, int16x8_t high) {
  return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
          vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))};
}
PYRITE_INLINE Lanes load_bytes(const int8_t* from) {
  const int8x16_t bytes = vld1q_s8(from);
  return words_as_floats(vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
}
PYRITE_INLINE int16x8_t whole_words(float32x4_t a, float32x4_t b) {
  return vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(a)), vcvtnq_s32_f32(b));
}
// NaN becomes 0.
PYRITE_INLINE void store_bytes(int8_t* to, Lanes a) {
  const int8x8_t low = vmovn_s16(whole_words(a.first, a.second));
  vst1q_s8(to, vmovn_high_s16(low, whole_words(a.third, a.fourth)));
}
PYRITE_INLINE Lanes broadcast(float value) {
  const float32x4_t all = vdupq_n_f32(value);
  return {all, all, all, all};
}

PYRITE_INLINE Lanes add(Lanes a, Lanes b) {
  return each_four(a, b, [](float32x4_t x, float32x4_t y) { return vaddq_f32(x, y); });
}
PYRITE_INLINE Lanes subtract(Lanes a, Lanes b) {
  return each_four(a, b, [](float32x4_t x, float32x4_t y) { return vsubq_f32(x, y); });
}
PYRITE_INLINE Lanes multiply(Lanes a, Lanes b) {
  return each_four(a, b, [](float32x4_t x, float32x4_t y) { return vmulq_f32(x, y); });
}
PYRITE_INLINE Lanes divide(Lanes a, Lanes b) {
  return each_four(a, b, [](float32x4_t x, float32x4_t y) { return vdivq_f32(x, y); });
}
PYRITE_INLINE Lanes fused(Lanes a, Lanes b, Lanes c) {
  return {vfmaq_f32(c.first, a.first, b.first), vfmaq_f32(c.second, a.second, b.second),
          vfmaq_f32(c.third, a.third, b.third), vfmaq_f32(c.fourth, a.fourth, b.fourth)};
}
// Not vminq and vmaxq, which give NaN when either is NaN.
PYRITE_INLINE Lanes minimum(Lanes a, Lanes b) {
  return each_four(a, b, [](float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcltq_f32(x, y), x, y);
  });
}
PYRITE_INLINE Lanes maximum(Lanes a, Lanes b) {
  return each_four(a, b, [](float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcgtq_f32(x, y), x, y);
  });
}
PYRITE_INLINE Lanes round_even(Lanes a) {
  return each_four(a, [](float32x4_t x) { return vrndnq_f32(x); });
}
PYRITE_INLINE Lanes power2(Lanes n) {
  return each_four(n, [](float32x4_t x) {
    const int32x4_t biased = vaddq_s32(vcvtq_s32_f32(x), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(biased, 23));
  });
}
PYRITE_INLINE float32x4_t keep(float32x4_t a, int low, int high, float32x4_t b) {
  const int32x4_t lane = {0, 1, 2, 3};
  const uint32x4_t kept = vandq_u32(vcgeq_s32(lane, vdupq_n_s32(low)),
                                    vcleq_s32(lane, vdupq_n_s32(high)));
  return vbslq_f32(kept, a, b);
}
PYRITE_INLINE Lanes keep(Lanes a, int low, int high, Lanes b) {
  return {keep(a.first, low, high, b.first), keep(a.second, low - 4, high - 4, b.second),
          keep(a.third, low - 8, high - 8, b.third), keep(a.fourth, low - 12, high - 12, b.fourth)};
}
PYRITE_INLINE float largest(Lanes a) {
  return vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(a.first, a.second), vmaxnmq_f32(a.third, a.fourth)));
}
PYRITE_INLINE bool finite(Lanes a) {
  const Lanes zero = subtract(a, a);  // or NaN
  const uint32x4_t low = vandq_u32(vceqzq_f32(zero.first), vceqzq_f32(zero.second));
  const uint32x4_t high = vandq_u32(vceqzq_f32(zero.third), vceqzq_f32(zero.fourth));
  return vminvq_u32(vandq_u32(low, high)) != 0;
}
