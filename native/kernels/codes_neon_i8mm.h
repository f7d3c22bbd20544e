// Products with SMMLA: eight columns of two rows of the panel by eight of two rows of activations.
// So a chunk keeps groups in pairs, for each two rows of the panel 16 bytes: eight columns of the
// one, then of the other. A row of activations alone takes the same bytes with SDOT.

template <bool kSubtractsZero, int kPlaneCount>
struct ByteDot {
  static constexpr uint32_t kForm = kPlanes;
  static constexpr bool kCentred = kSubtractsZero;
  static constexpr int kGroupBytes = 64;
  static constexpr size_t kBlockBytes = plane_block_bytes(kPlaneCount);
  static constexpr int kStepBytes = 4;
  static constexpr int kMostRows = kPlaneCount == 1 ? 4 : 2;
  static constexpr int kRowPairs = kPanelRows / 2;

  // Of each two rows of the panel, by columns or by rows of activations.
  struct Sums {
    int32x4_t of_pairs[kRowPairs];
  };

  static size_t place(const ActivationAreas& areas) { return areas.planes; }

  static void put_four(uint8_t* to, uint8x16_t a, uint8x16_t b) {
    const uint32x4_t first = vreinterpretq_u32_u8(a);
    const uint32x4_t second = vreinterpretq_u32_u8(b);
    vst1q_u8(to, vreinterpretq_u8_u32(vzip1q_u32(first, second)));
    vst1q_u8(to + 16, vreinterpretq_u8_u32(vzip2q_u32(first, second)));
  }
  static void put_pair(uint8_t* to, Codes a, Codes b) {
    if constexpr (kCentred) {
      a = centred(a);
      b = centred(b);
    }
    put_four(to, a.first, b.first);
    put_four(to + 32, a.second, b.second);
    put_four(to + 64, a.third, b.third);
    put_four(to + 96, a.fourth, b.fourth);
  }

  static Sums joined(const Sums& low, const Sums& high) {
    Sums both;
    for (int i = 0; i < kRowPairs; ++i) {
      both.of_pairs[i] = joined_planes(low.of_pairs[i], high.of_pairs[i]);
    }
    return both;
  }

  // Sums hold (row of activations, row of the panel).
  static void untangle(const Sums& sums, Ints* whole) {
    const auto of_row = [&](int r, int i) {
      const int64x2_t a = vreinterpretq_s64_s32(sums.of_pairs[2 * i]);
      const int64x2_t b = vreinterpretq_s64_s32(sums.of_pairs[2 * i + 1]);
      return vreinterpretq_s32_s64(r == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b));
    };
    for (int r = 0; r < 2; ++r) whole[r] = {of_row(r, 0), of_row(r, 1), of_row(r, 2), of_row(r, 3)};
  }

  // kPairs pairs of vectors, each pair by all of the codes of sixteen columns.
  template <int kPairs>
  [[gnu::always_inline]] static void add_pairs(Sums* sums, const uint8_t* codes,
                                               const int8x16_t* q) {
    for (int half = 0; half < 2; ++half) {
      int8x16_t both[kPairs];
      for (int p = 0; p < kPairs; ++p) {
        const int64x2_t a = vreinterpretq_s64_s8(q[2 * p]);
        const int64x2_t b = vreinterpretq_s64_s8(q[2 * p + 1]);
        both[p] = vreinterpretq_s8_s64(half == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b));
      }
      for (int i = 0; i < kRowPairs; ++i) {
        const int8x16_t code = load_signed(codes + 128 * half + 16 * i);
        for (int p = 0; p < kPairs; ++p) {
          int32x4_t& sum = sums[p].of_pairs[i];
          sum = vmmlaq_s32(sum, both[p], code);
        }
      }
    }
  }

  template <int kVectors>
  [[gnu::always_inline]] static void add_alone(Sums* sums, const uint8_t* codes,
                                               const int8x16_t* q) {
    for (int half = 0; half < 2; ++half) {
      int8x16_t twice[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        const int64x2_t a = vreinterpretq_s64_s8(q[v]);
        twice[v] = vreinterpretq_s8_s64(half == 0 ? vdupq_laneq_s64(a, 0) : vdupq_laneq_s64(a, 1));
      }
      for (int i = 0; i < kRowPairs; ++i) {
        const int8x16_t code = load_signed(codes + 128 * half + 16 * i);
        for (int v = 0; v < kVectors; ++v) {
          int32x4_t& sum = sums[v].of_pairs[i];
          sum = vdotq_s32(sum, code, twice[v]);
        }
      }
    }
  }

  // Vectors of q: a plane of all rows, then the other.
  template <int kRows, int kCount>
  [[gnu::always_inline]] static void sum_step(const uint8_t* codes, const uint8_t* rows,
                                              size_t stride, Ints* whole) {
    constexpr int kVectors = kRows * kPlaneCount;
    constexpr int kSums = kRows == 1 ? kVectors : kVectors / 2;
    Sums sums[kSums] = {};
#pragma GCC unroll 2
    for (int g = 0; g < kCount; g += 4) {
      int8x16_t q[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        q[v] = load_signed(rows + v % kRows * stride + v / kRows * kBlock + 4 * g);
      }
      const uint8_t* group = codes + g * kGroupBytes;
      if constexpr (kRows == 1) {
        add_alone<kVectors>(sums, group, q);
      } else {
        add_pairs<kSums>(sums, group, q);
      }
    }
    constexpr int kOfPlane = kSums / kPlaneCount;
    for (int s = 0; s < kOfPlane; ++s) {
      const Sums both = kPlaneCount == 1 ? sums[s] : joined(sums[s], sums[kSums - kOfPlane + s]);
      if constexpr (kRows == 1) {
        const int32x4_t* of = both.of_pairs;
        whole[0] = {vpaddq_s32(of[0], of[1]), vpaddq_s32(of[2], of[3]), vpaddq_s32(of[4], of[5]),
                    vpaddq_s32(of[6], of[7])};
      } else {
        untangle(both, whole + 2 * s);
      }
    }
  }
};

template <int kBits, int kPlaneCount, int kSteps>
using DotFor = ByteDot<kBits == 8, kPlaneCount>;
