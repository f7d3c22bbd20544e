// Products with AVX-VNNI, which adds up as it multiplies. See codes.h; codes are AVX2's.

// Products of bytes, four columns at once, a plane at a time; codes may have 8 bits.
template <int kPlaneCount>
struct PlaneDot {
  static constexpr uint32_t kForm = kPlanes;
  static constexpr int kGroupBytes = 64;
  static constexpr size_t kBlockBytes = plane_block_bytes(kPlaneCount);
  static constexpr int kStepBytes = 4;
  static constexpr int kMostRows = kPlaneCount == 1 ? 4 : 2;

  struct Sum {
    Ints low, high;
  };

  static size_t place(const ActivationAreas& areas) { return areas.planes; }
  static void put(uint8_t* to, Codes codes) {
    store_256(to, codes.low);
    store_256(to + 32, codes.high);
  }
  static void add_plane(Ints& sum, const Codes& code, const uint8_t* plane) {
    const __m256i q = broadcast_32(plane);
    sum.low = _mm256_dpbusd_avx_epi32(sum.low, code.low, q);
    sum.high = _mm256_dpbusd_avx_epi32(sum.high, code.high, q);
  }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const uint8_t* rows,
                                         size_t stride) {
    const Codes code = load_codes(codes);
    for (int r = 0; r < kRows; ++r) {
      add_plane(sums[r].low, code, rows + r * stride);
      if constexpr (kPlaneCount == 2) add_plane(sums[r].high, code, rows + r * stride + kBlock);
    }
  }
  static __m256i joined(__m256i low, __m256i high) {
    return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low);
  }
  static Ints whole(const Sum& sum) {
    if constexpr (kPlaneCount == 1) return sum.low;
    return {joined(sum.low.low, sum.high.low), joined(sum.low.high, sum.high.high)};
  }
};

// Two planes of bytes take as long as words and are widened faster, but two sums are joined at each
// step: not for types with two steps in a block.
template <int kBits, int kPlaneCount, int kSteps>
using DotFor =
    std::conditional_t<kPlaneCount == 2 && kSteps == 2, WordDot, PlaneDot<kPlaneCount>>;
