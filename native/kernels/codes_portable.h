// Codes in plain C++. See codes.h.

struct Codes {
  uint8_t v[64];
};

template <class Of>
inline Codes each_code(Of of) {
  Codes out;
  for (int i = 0; i < 64; ++i) out.v[i] = uint8_t(of(i));
  return out;
}

inline Codes load_codes(const uint8_t* from) {
  Codes out;
  std::memcpy(out.v, from, 64);
  return out;
}
inline Codes keep_bits(Codes a, int mask) {
  return each_code([&](int i) { return a.v[i] & mask; });
}
inline Codes shift_codes(Codes a, int n) {
  if (n >= 0) return each_code([&](int i) { return a.v[i] << n; });
  return each_code([&](int i) { return a.v[i] >> -n; });
}
inline Codes join(Codes a, Codes b) {
  return each_code([&](int i) { return a.v[i] | b.v[i]; });
}
inline Codes look_up(Codes codes, const uint8_t* table) {
  return each_code([&](int i) { return table[codes.v[i]]; });
}

struct Ints {
  int32_t v[16];
};

inline Ints subtract_all(Ints a, int32_t n) {
  for (int i = 0; i < 16; ++i) a.v[i] -= n;
  return a;
}
inline Lanes to_floats(Ints a) {
  return each_lane([&](int i) { return float(a.v[i]); });
}
template <class T>
inline Lanes bytes_as_floats(const uint8_t* from) {
  return each_lane([&](int i) { return float(T(from[i])); });
}
inline Lanes low_nibbles_as_floats(const uint8_t* from) {
  return each_lane([&](int i) { return float(from[i] & 15); });
}
inline Lanes high_nibbles_as_floats(const uint8_t* from) {
  return each_lane([&](int i) { return float(from[i] >> 4); });
}
inline Lanes fused_once(Lanes a, Lanes b, Lanes c) {
  return each_lane([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}

struct WordDot {
  static constexpr uint32_t kForm = kWords;
  static constexpr int kGroupBytes = 64;
  static constexpr int kMostRows = 2;

  struct Row {
    const int16_t* words;
  };
  using Sum = Ints;

  static Row row(const uint8_t* data, const ActivationAreas& areas) {
    return {reinterpret_cast<const int16_t*>(data + areas.words)};
  }
  static void put(uint8_t* to, Codes codes) { std::memcpy(to, codes.v, 64); }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const Row* rows,
                                         int column) {
    for (int r = 0; r < kRows; ++r) {
      const int16_t* q = rows[r].words + column;
      for (int i = 0; i < 16; ++i) {
        const uint8_t* code = codes + 4 * i;
        sums[r].v[i] += code[0] * q[0] + code[2] * q[1] + code[1] * q[2] + code[3] * q[3];
      }
    }
  }
  static Ints whole(Sum sum) { return sum; }
};

template <int kBits, int kPlaneCount>
using DotFor = WordDot;
