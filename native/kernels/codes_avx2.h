// Codes as two AVX2 registers. See codes.h.

struct Codes {
  __m256i low, high;
};

PYRITE_INLINE __m256i load_256(const uint8_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}
PYRITE_INLINE void store_256(uint8_t* to, __m256i a) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), a);
}

PYRITE_INLINE Codes load_codes(const uint8_t* from) { return {load_256(from), load_256(from + 32)}; }
PYRITE_INLINE Codes keep_bits(Codes a, int mask) {
  const __m256i all = _mm256_set1_epi8(char(mask));
  return {_mm256_and_si256(a.low, all), _mm256_and_si256(a.high, all)};
}
PYRITE_INLINE Codes shift_codes(Codes a, int n) {
  if (n >= 0) return {_mm256_slli_epi16(a.low, n), _mm256_slli_epi16(a.high, n)};
  return {_mm256_srli_epi16(a.low, -n), _mm256_srli_epi16(a.high, -n)};
}
PYRITE_INLINE Codes join(Codes a, Codes b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
PYRITE_INLINE Codes look_up(Codes codes, const uint8_t* table) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)table));
  return {_mm256_shuffle_epi8(values, codes.low), _mm256_shuffle_epi8(values, codes.high)};
}

struct Ints {
  __m256i low, high;
};

PYRITE_INLINE Lanes to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

template <class T>
PYRITE_INLINE __m256i eight_bytes_as_ints(const uint8_t* from) {
  const __m128i bytes = _mm_loadl_epi64((const __m128i*)from);
  if constexpr (std::is_signed_v<T>) return _mm256_cvtepi8_epi32(bytes);
  return _mm256_cvtepu8_epi32(bytes);
}
template <class T>
PYRITE_INLINE Ints bytes_as_ints(const uint8_t* from) {
  return {eight_bytes_as_ints<T>(from), eight_bytes_as_ints<T>(from + 8)};
}
PYRITE_INLINE Lanes fused_once(Lanes a, Lanes b, Lanes c) { return fused(a, b, c); }

PYRITE_INLINE __m256i broadcast_32(const void* from) {
  int32_t value;
  std::memcpy(&value, from, 4);
  return _mm256_set1_epi32(value);
}

PYRITE_INLINE Ints load_ints(const int32_t* from) {
  const __m256i* at = reinterpret_cast<const __m256i*>(from);
  return {_mm256_load_si256(at), _mm256_load_si256(at + 1)};
}
PYRITE_INLINE void store_ints(int32_t* to, Ints a) {
  __m256i* at = reinterpret_cast<__m256i*>(to);
  _mm256_store_si256(at, a.low);
  _mm256_store_si256(at + 1, a.high);
}
PYRITE_INLINE Ints operator+(Ints a, Ints b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
PYRITE_INLINE Ints operator*(Ints a, Ints b) {
  return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
}
PYRITE_INLINE Ints subtract_raised(Ints a, const int32_t* n, int bits) {
  const __m256i raised = _mm256_sllv_epi32(broadcast_32(n), _mm256_set1_epi32(bits));
  return {_mm256_sub_epi32(a.low, raised), _mm256_sub_epi32(a.high, raised)};
}

// sum + product, here and now: left to itself GCC collects a block's products in memory and adds
// them afterwards in another order.
PYRITE_INLINE void add_32(__m256i& sum, __m256i product) {
  sum = _mm256_add_epi32(sum, product);
  asm("" : "+x"(sum));
}
PYRITE_INLINE void add_16(__m256i& sum, __m256i product) {
  sum = _mm256_add_epi16(sum, product);
  asm("" : "+x"(sum));
}

// The low half of each lane in both its halves.
PYRITE_INLINE Ints as_pairs(Ints a) {
  return {_mm256_blend_epi16(a.low, _mm256_slli_epi32(a.low, 16), 0xaa),
          _mm256_blend_epi16(a.high, _mm256_slli_epi32(a.high, 16), 0xaa)};
}

// Products of words, two columns at once.
PYRITE_INLINE void add_words(__m256i& sum, __m256i words, __m256i q) {
#if defined(__AVXVNNI__)
  sum = _mm256_dpwssd_avx_epi32(sum, words, q);
#else
  add_32(sum, _mm256_madd_epi16(words, q));
#endif
}

// 16-bit products: codes are kept as words, columns 0 and 2 of a group before 1 and 3. Two planes
// cost no more than one, nothing can overflow, and codes may have 8 bits.
struct WordDot {
  static constexpr uint32_t kForm = kWords;
  static constexpr int kGroupBytes = 128;
  static constexpr size_t kBlockBytes = kWordBlockBytes;
  static constexpr int kStepBytes = 8;
  static constexpr int kMostRows = 4;
  static constexpr bool kCanBeFolded = true;

  using Sum = Ints;

  static size_t place(const ActivationAreas& areas) { return areas.words; }
  static Ints step_form(Ints step) { return as_pairs(step); }
  static void put(uint8_t* to, Codes codes) {
    const __m256i even = _mm256_set1_epi16(0xff);
    store_256(to, _mm256_and_si256(codes.low, even));
    store_256(to + 32, _mm256_and_si256(codes.high, even));
    store_256(to + 64, _mm256_srli_epi16(codes.low, 8));
    store_256(to + 96, _mm256_srli_epi16(codes.high, 8));
  }
  // The low or the high halves of bytes.
  static void put_nibbles(uint8_t* to, Codes codes, bool high) {
    const __m256i word = _mm256_set1_epi16(15);
    const auto even = [&](__m256i a) { return _mm256_and_si256(high ? _mm256_srli_epi16(a, 4) : a, word); };
    const auto odd = [&](__m256i a) {
      return high ? _mm256_srli_epi16(a, 12) : _mm256_and_si256(_mm256_srli_epi16(a, 8), word);
    };
    store_256(to, even(codes.low));
    store_256(to + 32, even(codes.high));
    store_256(to + 64, odd(codes.low));
    store_256(to + 96, odd(codes.high));
  }
  // Below 2^15: codes of 6 bits times steps of 8 at most, or codes of 8 bits.
  template <bool kWholeSteps>
  static void put_folded(uint8_t* to, Codes codes, int zero, const int32_t* steps) {
    const __m256i even = _mm256_set1_epi16(0xff);
    const __m256i words[] = {_mm256_and_si256(codes.low, even), _mm256_and_si256(codes.high, even),
                             _mm256_srli_epi16(codes.low, 8), _mm256_srli_epi16(codes.high, 8)};
    for (int i = 0; i < 4; ++i) {
      __m256i factor = _mm256_sub_epi16(words[i], _mm256_set1_epi16(int16_t(zero)));
      if constexpr (kWholeSteps) {
        const Ints step = load_ints(steps);
        factor = _mm256_mullo_epi16(factor, i % 2 == 0 ? step.low : step.high);
      }
      store_256(to + 32 * i, factor);
    }
  }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const uint8_t* rows,
                                         size_t stride) {
    for (int pair = 0; pair < 2; ++pair) {
      const __m256i low = load_256(codes + 64 * pair);
      const __m256i high = load_256(codes + 64 * pair + 32);
      for (int r = 0; r < kRows; ++r) {
        const __m256i q = broadcast_32(rows + r * stride + 4 * pair);
        add_words(sums[r].low, low, q);
        add_words(sums[r].high, high, q);
      }
    }
  }
  static Ints whole(Sum sum) { return sum; }
};

// Products of bytes, for one plane and codes of up to 6 bits. Sums are kept in 16 bits over a run of
// groups. Without a zero the products of a lane stay within 16 * 15 * 127 = 30480 over 8 groups, or
// 8 * 31 * 127 over 4. With a zero amid the codes a sum starts at less its share, and
// what it is in between does not matter, for it wraps: it ends within 16 * 16 * 127 = 32512 over 8
// groups, or 8 * 32 * 127 over 4.
template <int kBits>
struct ByteDot {
  static constexpr uint32_t kForm = kBytes;
  static constexpr int kGroupBytes = 64;
  static constexpr size_t kBlockBytes = kByteBlockBytes;
  static constexpr int kStepBytes = 4;
  static constexpr int kMostRows = 4;
  static constexpr bool kNarrow = true;

  using Sum = Ints;  // of int16, two to a lane

  static constexpr int run_groups(bool has_zero) { return kBits <= (has_zero ? 5 : 4) ? 8 : 4; }
  static size_t place(const ActivationAreas& areas) { return areas.bytes; }
  static void put(uint8_t* to, Codes codes) {
    store_256(to, codes.low);
    store_256(to + 32, codes.high);
  }
  static Ints step_form(Ints step) { return as_pairs(step); }
  static Sum start(const int16_t* less_pairs, int zero_bits) {
    const __m256i less = _mm256_slli_epi16(broadcast_32(less_pairs), zero_bits);
    return {less, less};
  }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const uint8_t* rows,
                                         size_t stride) {
    const Codes code = load_codes(codes);
    for (int r = 0; r < kRows; ++r) {
      const __m256i q = broadcast_32(rows + r * stride);
      add_16(sums[r].low, _mm256_maddubs_epi16(code.low, q));
      add_16(sums[r].high, _mm256_maddubs_epi16(code.high, q));
    }
  }
  static Ints whole(Sum sum) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(sum.low, ones), _mm256_madd_epi16(sum.high, ones)};
  }
  static Ints whole(Sum sum, Ints steps) {
    return {_mm256_madd_epi16(sum.low, steps.low), _mm256_madd_epi16(sum.high, steps.high)};
  }
};

#if !defined(__AVXVNNI__)  // which has its own choice
template <int kBits, int kPlaneCount, int kSteps>
using DotFor = std::conditional_t<(kPlaneCount == 1 && kBits <= 6), ByteDot<kBits>, WordDot>;
#endif
