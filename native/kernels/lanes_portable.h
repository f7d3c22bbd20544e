// Lanes in plain C++, for processors without a header of their own. See lanes.h.

struct Lanes {
  float v[16];
};

template <class Of>
PYRITE_INLINE Lanes each_lane(Of of) {
  Lanes out;
  for (int i = 0; i < 16; ++i) out.v[i] = of(i);
  return out;
}

PYRITE_INLINE Lanes load(const float* from) {
  return each_lane([&](int i) { return from[i]; });
}
PYRITE_INLINE void store(float* to, Lanes a) {
  for (int i = 0; i < 16; ++i) to[i] = a.v[i];
}
PYRITE_INLINE Lanes load_half(const uint16_t* from) {
  return each_lane([&](int i) { return float_from_half(from[i]); });
}
PYRITE_INLINE void load_e4m3(const uint8_t* from, Lanes* to) {
  for (int column = 0; column < 4; ++column) {
    to[column] = each_lane([&](int i) {
      return float_from_half(half_of_bits_e4m3(from[scaled_code_place(column, i)]));
    });
  }
}
PYRITE_INLINE void load_e5m2(const uint8_t* from, Lanes* to) {
  for (int column = 0; column < 4; ++column) {
    to[column] = each_lane([&](int i) {
      return float_from_half(half_of_bits_e5m2(from[scaled_code_place(column, i)]));
    });
  }
}
PYRITE_INLINE void store_half(uint16_t* to, Lanes a) {
  for (int i = 0; i < 16; ++i) to[i] = half_from_float(a.v[i]);
}
PYRITE_INLINE Lanes load_bytes(const int8_t* from) {
  return each_lane([&](int i) { return float(from[i]); });
}
// See round_even; NaN becomes 0.
PYRITE_INLINE void store_bytes(int8_t* to, Lanes a) {
  for (int i = 0; i < 16; ++i) {
    to[i] = a.v[i] == a.v[i] ? int8_t((a.v[i] + 12582912.0f) - 12582912.0f) : int8_t(0);
  }
}
PYRITE_INLINE Lanes broadcast(float value) {
  return each_lane([&](int) { return value; });
}

PYRITE_INLINE Lanes add(Lanes a, Lanes b) {
  return each_lane([&](int i) { return a.v[i] + b.v[i]; });
}
PYRITE_INLINE Lanes subtract(Lanes a, Lanes b) {
  return each_lane([&](int i) { return a.v[i] - b.v[i]; });
}
PYRITE_INLINE Lanes multiply(Lanes a, Lanes b) {
  return each_lane([&](int i) { return a.v[i] * b.v[i]; });
}
PYRITE_INLINE Lanes divide(Lanes a, Lanes b) {
  return each_lane([&](int i) { return a.v[i] / b.v[i]; });
}
// a * b + c; fused where the processor has such an instruction, for a library call would be slow.
PYRITE_INLINE Lanes fused(Lanes a, Lanes b, Lanes c) {
#if defined(__FMA__) || defined(__aarch64__)
  return each_lane([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
#else
  return each_lane([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
#endif
}
PYRITE_INLINE Lanes minimum(Lanes a, Lanes b) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
PYRITE_INLINE Lanes maximum(Lanes a, Lanes b) {
  return each_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
// Adding and taking away 1.5 * 2^23 leaves no room for a fraction; |x| < 2^22.
PYRITE_INLINE Lanes round_even(Lanes a) {
  return each_lane([&](int i) { return (a.v[i] + 12582912.0f) - 12582912.0f; });
}
PYRITE_INLINE Lanes power2(Lanes n) {
  return each_lane([&](int i) {
    const int32_t whole = n.v[i] == n.v[i] ? int32_t(n.v[i]) : 0;
    return std::bit_cast<float>(uint32_t(whole + 127) << 23);
  });
}
PYRITE_INLINE Lanes keep(Lanes a, int low, int high, Lanes b) {
  return each_lane([&](int i) { return i >= low && i <= high ? a.v[i] : b.v[i]; });
}
PYRITE_INLINE float largest(Lanes a) {
  float most = a.v[0];
  for (int i = 1; i < 16; ++i) most = a.v[i] > most ? a.v[i] : most;
  return most;
}
// Whether every lane is neither NaN nor infinite.
PYRITE_INLINE bool finite(Lanes a) {
  bool all = true;
  for (int i = 0; i < 16; ++i) all &= a.v[i] - a.v[i] == 0.0f;
  return all;
}
