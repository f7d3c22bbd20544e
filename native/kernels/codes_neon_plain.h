// Products for every 64-bit Arm, which multiplies bytes and words in pairs of registers.

// 16-bit products: codes are kept as words, a column's 16 rows together, in the order 0 2 1 3 of
// columns that the activations have. Two planes cost no more than one, and codes may have 8 bits.
struct WordDot {
  static constexpr uint32_t kForm = kWords;
  static constexpr int kGroupBytes = 128;
  static constexpr size_t kBlockBytes = kWordBlockBytes;
  static constexpr int kStepBytes = 8;
  static constexpr int kMostRows = 4;

  using Sum = Ints;

  static size_t place(const ActivationAreas& areas) { return areas.words; }
  static void put_column(uint8_t* to, uint8x16_t column) {
    uint16_t* words = reinterpret_cast<uint16_t*>(to);
    vst1q_u16(words, vmovl_u8(vget_low_u8(column)));
    vst1q_u16(words + 8, vmovl_high_u8(column));
  }
  static void put(uint8_t* to, Codes codes) {
    const uint8x16_t even_low = vuzp1q_u8(codes.first, codes.second);
    const uint8x16_t even_high = vuzp1q_u8(codes.third, codes.fourth);
    const uint8x16_t odd_low = vuzp2q_u8(codes.first, codes.second);
    const uint8x16_t odd_high = vuzp2q_u8(codes.third, codes.fourth);
    put_column(to, vuzp1q_u8(even_low, even_high));
    put_column(to + 32, vuzp2q_u8(even_low, even_high));
    put_column(to + 64, vuzp1q_u8(odd_low, odd_high));
    put_column(to + 96, vuzp2q_u8(odd_low, odd_high));
  }
  template <int kRows, int kColumn>
  [[gnu::always_inline]] static void add_column(Sum* sums, const uint8_t* codes,
                                                const int16x4_t* q) {
    const int16_t* words = reinterpret_cast<const int16_t*>(codes) + kColumn * kPanelRows;
    const int16x8_t low = vld1q_s16(words);
    const int16x8_t high = vld1q_s16(words + 8);
    for (int r = 0; r < kRows; ++r) {
      Sum& sum = sums[r];
      sum.first = vmlal_lane_s16(sum.first, vget_low_s16(low), q[r], kColumn);
      sum.second = vmlal_high_lane_s16(sum.second, low, q[r], kColumn);
      sum.third = vmlal_lane_s16(sum.third, vget_low_s16(high), q[r], kColumn);
      sum.fourth = vmlal_high_lane_s16(sum.fourth, high, q[r], kColumn);
    }
  }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const uint8_t* rows,
                                         size_t stride) {
    int16x4_t q[kRows];
    for (int r = 0; r < kRows; ++r) {
      q[r] = vld1_s16(reinterpret_cast<const int16_t*>(rows + r * stride));
    }
    add_column<kRows, 0>(sums, codes, q);
    add_column<kRows, 1>(sums, codes, q);
    add_column<kRows, 2>(sums, codes, q);
    add_column<kRows, 3>(sums, codes, q);
  }
  static Ints whole(Sum sum) { return sum; }
};

// Products of bytes, for one plane and codes below 32: eight products of a column stay within
// 8 * 31 * 127 = 31496, so that a block adds up in 16 bits and is widened once.
struct ByteDot {
  static constexpr uint32_t kForm = kPlanes;
  static constexpr int kGroupBytes = 64;
  static constexpr size_t kBlockBytes = plane_block_bytes(1);
  static constexpr int kStepBytes = 4;
  static constexpr int kMostRows = 2;

  struct Sum {
    int16x8_t of_rows[8];  // two rows of the panel each, four columns a row
  };

  static size_t place(const ActivationAreas& areas) { return areas.planes; }
  static void put(uint8_t* to, Codes codes) { store_codes(to, codes); }
  template <int kRows>
  [[gnu::always_inline]] static void add(Sum* sums, const uint8_t* codes, const uint8_t* rows,
                                         size_t stride) {
    int8x16_t q[kRows];
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, rows + r * stride, 4);
      q[r] = vreinterpretq_s8_s32(vdupq_n_s32(four));
    }
    for (int i = 0; i < 4; ++i) {
      const int8x16_t code = load_signed(codes + 16 * i);
      for (int r = 0; r < kRows; ++r) {
        int16x8_t* of_rows = sums[r].of_rows + 2 * i;
        of_rows[0] = vmlal_s8(of_rows[0], vget_low_s8(code), vget_low_s8(q[r]));
        of_rows[1] = vmlal_high_s8(of_rows[1], code, q[r]);
      }
    }
  }
  static int32x4_t four_rows(int16x8_t a, int16x8_t b) {
    return vpaddq_s32(vpaddlq_s16(a), vpaddlq_s16(b));
  }
  static Ints whole(const Sum& sum) {
    const int16x8_t* of_rows = sum.of_rows;
    return {four_rows(of_rows[0], of_rows[1]), four_rows(of_rows[2], of_rows[3]),
            four_rows(of_rows[4], of_rows[5]), four_rows(of_rows[6], of_rows[7])};
  }
};

template <int kBits, int kPlaneCount, int kSteps>
using DotFor = std::conditional_t<(kPlaneCount == 1 && kBits <= 5), ByteDot, WordDot>;
