// Codes in plain C++. See codes.h.

struct Codes {
  uint8_t v[64];
};

template <class Of>
PYRITE_INLINE Codes each_code(Of of) {
  Codes out;
  for (int i = 0; i < 64; ++i) out.v[i] = uint8_t(of(i));
  return out;
}

PYRITE_INLINE Codes load_codes(const uint8_t* from) {
  Codes out;
  std::memcpy(out.v, from, 64);
  return out;
}
PYRITE_INLINE Codes keep_bits(Codes a, int mask) {
  return each_code([&](int i) { return a.v[i] & mask; });
}
PYRITE_INLINE Codes shift_codes(Codes a, int n) {
  if (n >= 0) return each_code([&](int i) { return a.v[i] << n; });
  return each_code([&](int i) { return a.v[i] >> -n; });
}
PYRITE_INLINE Codes join(Codes a, Codes b) {
  return each_code([&](int i) { return a.v[i] | b.v[i]; });
}
PYRITE_INLINE Codes look_up(Codes codes, const uint8_t* table) {
  return each_code([&](int i) { return table[codes.v[i]]; });
}

struct Ints {
  int32_t v[16];
};

PYRITE_INLINE Ints load_ints(const int32_t* from) {
  Ints out;
  std::memcpy(out.v, from, sizeof out.v);
  return out;
}
PYRITE_INLINE void store_ints(int32_t* to, Ints a) { std::memcpy(to, a.v, sizeof a.v); }
PYRITE_INLINE Ints operator+(Ints a, Ints b) {
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
PYRITE_INLINE Ints operator*(Ints a, Ints b) {
  for (int i = 0; i < 16; ++i) a.v[i] *= b.v[i];
  return a;
}
PYRITE_INLINE Ints subtract_raised(Ints a, const int32_t* n, int bits) {
  for (int i = 0; i < 16; ++i) a.v[i] -= *n * (1 << bits);
  return a;
}
PYRITE_INLINE Lanes to_floats(Ints a) {
  return each_lane([&](int i) { return float(a.v[i]); });
}
template <class T>
PYRITE_INLINE Ints bytes_as_ints(const uint8_t* from) {
  Ints out;
  for (int i = 0; i < 16; ++i) out.v[i] = T(from[i]);
  return out;
}
PYRITE_INLINE Lanes fused_once(Lanes a, Lanes b, Lanes c) {
  return each_lane([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}

struct WordDot {
  static constexpr uint32_t kForm = kWords;
  static constexpr int kGroupBytes = 64;
  static constexpr size_t kBlockBytes = kWordBlockBytes;
  static constexpr int kStepBytes = 8;
  static constexpr int kMostRows = 2;

  using Sum = Ints;

  static size_t place(const ActivationAreas& areas) { return areas.words; }
  static void put(uint8_t* to, Codes codes) { std::memcpy(to, codes.v, 64); }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const uint8_t* rows,
                                         size_t stride) {
    for (int r = 0; r < kRows; ++r) {
      const int16_t* q = reinterpret_cast<const int16_t*>(rows + r * stride);
      for (int i = 0; i < 16; ++i) {
        const uint8_t* code = codes + 4 * i;
        sums[r].v[i] += code[0] * q[0] + code[2] * q[1] + code[1] * q[2] + code[3] * q[3];
      }
    }
  }
  static Ints whole(Sum sum) { return sum; }
};

template <int kBits, int kPlaneCount, int kSteps>
using DotFor = WordDot;
