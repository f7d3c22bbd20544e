// Products with SDOT: four columns of four rows of the panel by four activations that a register's
// lane holds, sixteen of which are loaded at once.

template <bool kSubtractsZero, int kPlaneCount>
struct ByteDot {
  static constexpr uint32_t kForm = kPlanes;
  static constexpr bool kCentred = kSubtractsZero;
  static constexpr int kGroupBytes = 64;
  static constexpr size_t kBlockBytes = plane_block_bytes(kPlaneCount);
  static constexpr int kStepBytes = 4;
  static constexpr int kMostRows = kPlaneCount == 1 ? 4 : 2;

  static size_t place(const ActivationAreas& areas) { return areas.planes; }
  static void put(uint8_t* to, Codes codes) { store_codes(to, kCentred ? centred(codes) : codes); }

  // The codes of one group, by lane kGroup of q.
  template <int kRows, int kGroup>
  [[gnu::always_inline]] static void add(Ints* sums, const uint8_t* codes, const int8x16_t* q) {
    const int8x16_t first = load_signed(codes);
    const int8x16_t second = load_signed(codes + 16);
    const int8x16_t third = load_signed(codes + 32);
    const int8x16_t fourth = load_signed(codes + 48);
    for (int r = 0; r < kRows; ++r) {
      Ints& sum = sums[r];
      sum.first = vdotq_laneq_s32(sum.first, first, q[r], kGroup);
      sum.second = vdotq_laneq_s32(sum.second, second, q[r], kGroup);
      sum.third = vdotq_laneq_s32(sum.third, third, q[r], kGroup);
      sum.fourth = vdotq_laneq_s32(sum.fourth, fourth, q[r], kGroup);
    }
  }

  // Row r's planes are q[r] and q[kRows + r], and so are its sums.
  template <int kRows, int kCount>
  [[gnu::always_inline]] static void sum_step(const uint8_t* codes, const uint8_t* rows,
                                              size_t stride, Ints* whole) {
    constexpr int kVectors = kRows * kPlaneCount;
    Ints sums[kVectors] = {};
#pragma GCC unroll 2
    for (int g = 0; g < kCount; g += 4) {
      int8x16_t q[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        q[v] = load_signed(rows + v % kRows * stride + v / kRows * kBlock + 4 * g);
      }
      const uint8_t* group = codes + g * kGroupBytes;
      add<kVectors, 0>(sums, group, q);
      add<kVectors, 1>(sums, group + kGroupBytes, q);
      add<kVectors, 2>(sums, group + 2 * kGroupBytes, q);
      add<kVectors, 3>(sums, group + 3 * kGroupBytes, q);
    }
    for (int r = 0; r < kRows; ++r) {
      const Ints& low = sums[r];
      const Ints& high = sums[kVectors - kRows + r];
      whole[r] = kPlaneCount == 1 ? low : joined(low, high);
    }
  }
};

template <int kBits, int kPlaneCount, int kSteps>
using DotFor = ByteDot<kBits == 8, kPlaneCount>;
