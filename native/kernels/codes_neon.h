// Codes as four NEON registers, of four rows each. See codes.h.

struct Codes {
  uint8x16_t first, second, third, fourth;
};

PYRITE_INLINE Codes load_codes(const uint8_t* from) {
  return {vld1q_u8(from), vld1q_u8(from + 16), vld1q_u8(from + 32), vld1q_u8(from + 48)};
}
PYRITE_INLINE void store_codes(uint8_t* to, Codes a) {
  vst1q_u8(to, a.first);
  vst1q_u8(to + 16, a.second);
  vst1q_u8(to + 32, a.third);
  vst1q_u8(to + 48, a.fourth);
}

template <class Of>
PYRITE_INLINE Codes each_sixteen(Codes a, Of of) {
  return {of(a.first), of(a.second), of(a.third), of(a.fourth)};
}
PYRITE_INLINE Codes keep_bits(Codes a, int mask) {
  const uint8x16_t all = vdupq_n_u8(uint8_t(mask));
  return each_sixteen(a, [&](uint8x16_t x) { return vandq_u8(x, all); });
}
PYRITE_INLINE Codes shift_codes(Codes a, int n) {
  if (n >= 0) return each_sixteen(a, [&](uint8x16_t x) { return x << n; });
  return each_sixteen(a, [&](uint8x16_t x) { return x >> -n; });
}
PYRITE_INLINE Codes join(Codes a, Codes b) {
  return {vorrq_u8(a.first, b.first), vorrq_u8(a.second, b.second), vorrq_u8(a.third, b.third),
          vorrq_u8(a.fourth, b.fourth)};
}
PYRITE_INLINE Codes look_up(Codes codes, const uint8_t* table) {
  const uint8x16_t values = vld1q_u8(table);
  return each_sixteen(codes, [&](uint8x16_t x) { return vqtbl1q_u8(values, x); });
}

struct Ints {
  int32x4_t first, second, third, fourth;
};

PYRITE_INLINE Ints load_ints(const int32_t* from) {
  return {vld1q_s32(from), vld1q_s32(from + 4), vld1q_s32(from + 8), vld1q_s32(from + 12)};
}
PYRITE_INLINE void store_ints(int32_t* to, Ints a) {
  vst1q_s32(to, a.first);
  vst1q_s32(to + 4, a.second);
  vst1q_s32(to + 8, a.third);
  vst1q_s32(to + 12, a.fourth);
}
PYRITE_INLINE Ints operator+(Ints a, Ints b) {
  return {vaddq_s32(a.first, b.first), vaddq_s32(a.second, b.second), vaddq_s32(a.third, b.third),
          vaddq_s32(a.fourth, b.fourth)};
}
PYRITE_INLINE Ints operator*(Ints a, Ints b) {
  return {vmulq_s32(a.first, b.first), vmulq_s32(a.second, b.second), vmulq_s32(a.third, b.third),
          vmulq_s32(a.fourth, b.fourth)};
}
PYRITE_INLINE Ints subtract_raised(Ints a, const int32_t* n, int bits) {
  const int32x4_t raised = vdupq_n_s32(*n * (1 << bits));
  return {vsubq_s32(a.first, raised), vsubq_s32(a.second, raised), vsubq_s32(a.third, raised),
          vsubq_s32(a.fourth, raised)};
}
PYRITE_INLINE Lanes to_floats(Ints a) {
  return {vcvtq_f32_s32(a.first), vcvtq_f32_s32(a.second), vcvtq_f32_s32(a.third),
          vcvtq_f32_s32(a.fourth)};
}
template <class T>
PYRITE_INLINE Ints bytes_as_ints(const uint8_t* from) {
  int16x8_t low;
  int16x8_t high;
  if constexpr (std::is_signed_v<T>) {
    const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(from));
    low = vmovl_s8(vget_low_s8(bytes));
    high = vmovl_high_s8(bytes);
  } else {
    const uint8x16_t bytes = vld1q_u8(from);
    low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
    high = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
  }
  return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
          vmovl_high_s16(high)};
}
PYRITE_INLINE Lanes fused_once(Lanes a, Lanes b, Lanes c) { return fused(a, b, c); }

// Dot products of bytes take both as signed: codes of 8 bits lose their zero, the others are small
// enough as they are.
PYRITE_INLINE Codes centred(Codes a) {
  return each_sixteen(a, [](uint8x16_t x) { return veorq_u8(x, vdupq_n_u8(0x80)); });
}
PYRITE_INLINE int8x16_t load_signed(const uint8_t* from) {
  return vld1q_s8(reinterpret_cast<const int8_t*>(from));
}
// 256 * high + low, as the planes of activations are.
PYRITE_INLINE int32x4_t joined_planes(int32x4_t low, int32x4_t high) {
  return vaddq_s32(low, vshlq_n_s32(high, 8));
}
PYRITE_INLINE Ints joined(Ints low, Ints high) {
  return {joined_planes(low.first, high.first), joined_planes(low.second, high.second),
          joined_planes(low.third, high.third), joined_planes(low.fourth, high.fourth)};
}

#if defined(__ARM_FEATURE_MATMUL_INT8)
#include "kernels/codes_neon_i8mm.h"
#elif defined(__ARM_FEATURE_DOTPROD)
#include "kernels/codes_neon_dotprod.h"
#else
#include "kernels/codes_neon_plain.h"
#endif
