// Lanes for processors without a header of their own, as four vectors of the compiler's: those that
// kernels/lanes_portable.h has are arrays, with which so much code takes minutes to compile. See
// kernels/lanes.h.

#define PYRITE_INLINE [[gnu::always_inline]] inline

using Quarter = float __attribute__((vector_size(16)));

struct Lanes {
  Quarter part[4];
};

template <class Of>
PYRITE_INLINE Lanes each_part(Of of) {
  return {{of(0), of(1), of(2), of(3)}};
}

PYRITE_INLINE Lanes load(const float* from) {
  Lanes a;
  std::memcpy(&a, from, sizeof a);
  return a;
}
PYRITE_INLINE void store(float* to, Lanes a) { std::memcpy(to, &a, sizeof a); }
PYRITE_INLINE Lanes broadcast(float value) {
  return each_part([&](int) { return Quarter{value, value, value, value}; });
}
PYRITE_INLINE Lanes operator+(Lanes a, Lanes b) {
  return each_part([&](int i) { return a.part[i] + b.part[i]; });
}
PYRITE_INLINE Lanes operator-(Lanes a, Lanes b) {
  return each_part([&](int i) { return a.part[i] - b.part[i]; });
}
PYRITE_INLINE Lanes operator*(Lanes a, Lanes b) {
  return each_part([&](int i) { return a.part[i] * b.part[i]; });
}
PYRITE_INLINE Lanes operator/(Lanes a, Lanes b) {
  return each_part([&](int i) { return a.part[i] / b.part[i]; });
}
PYRITE_INLINE Lanes choose_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return each_part([&](int i) { return a.part[i] < b.part[i] ? x.part[i] : y.part[i]; });
}
PYRITE_INLINE Lanes minimum(Lanes a, Lanes b) { return choose_less(a, b, a, b); }
PYRITE_INLINE Lanes maximum(Lanes a, Lanes b) { return choose_less(b, a, a, b); }
// Adding and taking away 1.5 * 2^23 leaves no room for a fraction; |x| < 2^22.
PYRITE_INLINE Lanes round_even(Lanes a) {
  const Lanes large = broadcast(12582912.0f);
  return (a + large) - large;
}

inline Lanes load_half(const uint16_t* from) {
  float lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = float_from_half(from[i]);
  return load(lane);
}
inline void store_half(uint16_t* to, Lanes a) {
  float lane[16];
  store(lane, a);
  for (int i = 0; i < 16; ++i) to[i] = half_from_float(lane[i]);
}
PYRITE_INLINE void store_bytes(int8_t* to, Lanes a) {
  float lane[16];
  store(lane, a);
  for (int i = 0; i < 16; ++i) to[i] = int8_t(lane[i]);
}
inline float largest(Lanes a) {
  float lane[16];
  store(lane, a);
  float most = lane[0];
  for (int i = 1; i < 16; ++i) most = lane[i] > most ? lane[i] : most;
  return most;
}
inline float sum(Lanes a) {
  float lane[16];
  store(lane, a);
  float total = 0;
  for (float value : lane) total += value;
  return total;
}
