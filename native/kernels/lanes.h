// Sixteen float lanes, the unit in which rows and attention are computed on every instruction set, so
// that a sum has the same order everywhere. Min and max give the second operand when either is NaN,
// as x86 does: NaN in data must stay in sight.
//
// Included inside the namespace of one instruction set. The including file is compiled for it, and
// has included <algorithm>, <bit>, <cmath>, <type_traits>, kernels/table.h, kernels/half.h,
// kernels/small_floats.h and <immintrin.h> or <arm_neon.h>.
//
//   load, store             16 floats, unaligned
//   load_part, store_part   the first `count` lanes; the others are 0, or not written
//   load_half, store_half   16 float16, rounded to nearest even
//   load_e4m3, load_e5m2    four columns of 8-bit floats as panels have them (layout.h); of E4M3,
//                           2^-8 of what they mean (small_floats.h)
//   load_bytes, store_bytes 16 8-bit integers, rounded to nearest even; |a| <= 127
//   keep(a, low, high, b)   a in lanes low .. high, b elsewhere
//   power2(n)               2^n for whole n in [-126, 127]

// Not left to the compiler: a call would put lanes into memory and load constants anew.
#if !defined(PYRITE_INLINE)
#define PYRITE_INLINE [[gnu::always_inline]] inline
#endif

#if defined(__AVX512F__)
#include "kernels/lanes_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/lanes_avx2.h"
#elif defined(__aarch64__) && !defined(PYRITE_PORTABLE)
#include "kernels/lanes_neon.h"
#else
#include "kernels/lanes_portable.h"
#endif

#if !defined(__AVX512F__)  // which has masks
PYRITE_INLINE Lanes load_part(const float* from, int count) {
  float lane[16] = {};
  for (int i = 0; i < count; ++i) lane[i] = from[i];
  return load(lane);
}
PYRITE_INLINE void store_part(float* to, Lanes a, int count) {
  float lane[16];
  store(lane, a);
  for (int i = 0; i < count; ++i) to[i] = lane[i];
}
#endif

PYRITE_INLINE Lanes operator+(Lanes a, Lanes b) { return add(a, b); }
PYRITE_INLINE Lanes operator-(Lanes a, Lanes b) { return subtract(a, b); }
PYRITE_INLINE Lanes operator*(Lanes a, Lanes b) { return multiply(a, b); }
PYRITE_INLINE Lanes operator/(Lanes a, Lanes b) { return divide(a, b); }

// ((lane i + lane i + 8) + ...): halves folded together, four times.
PYRITE_INLINE float sum(Lanes a) {
  float lane[16];
  store(lane, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

// e^x = series(r) 2^n, with n = round(x / ln 2) and r = x - n ln 2, |r| <= 0.35. x is brought into
// [-87.3, 88.3] first, so there is no infinity and no zero; NaN stays NaN.
struct Power {
  Lanes n, r;
};
PYRITE_INLINE Power power_of(Lanes x) {
  x = maximum(broadcast(-87.3f), minimum(broadcast(88.3f), x));
  const Lanes n = round_even(x * broadcast(1.44269504f));
  const Lanes r = fused(n, broadcast(-0.693359375f), x);  // ln 2 in two parts; the first has few
  return {n, fused(n, broadcast(2.12194440e-4f), r)};     // bits, so that its product is exact
}

// (e^r - 1) / r: its Taylor series to r^6. The next term of e^r is below 6e-9.
PYRITE_INLINE Lanes growth(Lanes r) {
  Lanes series = broadcast(1.0f / 5040);
  series = fused(series, r, broadcast(1.0f / 720));
  series = fused(series, r, broadcast(1.0f / 120));
  series = fused(series, r, broadcast(1.0f / 24));
  series = fused(series, r, broadcast(1.0f / 6));
  series = fused(series, r, broadcast(0.5f));
  return fused(series, r, broadcast(1.0f));
}

// e^x to 2 ulp; e^0 is 1 exactly.
PYRITE_INLINE Lanes exponential(Lanes x) {
  const Power power = power_of(x);
  return fused(growth(power.r), power.r, broadcast(1.0f)) * power2(power.n);
}

// tanh x = e / (e + 2) with e = e^2x - 1, which keeps its bits near zero.
PYRITE_INLINE Lanes hyperbolic_tangent(Lanes x) {
  const Power power = power_of(x + x);
  const Lanes scale = power2(power.n);
  const Lanes e = fused(growth(power.r) * power.r, scale, scale - broadcast(1.0f));
  return e / (e + broadcast(2.0f));
}
