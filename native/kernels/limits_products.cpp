// How many products a second instructions give: loops of nothing else, with enough sums that none
// waits for itself.

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/limits.h"

namespace pyrite {

namespace {

constexpr int64_t kRounds = 1 << 17;
constexpr int64_t kTileRounds = 8;  // of these, one turn on tiles: it does so much more
constexpr double kBudgetSeconds = 0.04;

// A loop over one kind of instruction; the number of products in one round.
struct Loop {
  const char* isa;
  const char* instructions;
  Factors factors;
  int bits;
  int64_t products;
  void (*run)(int64_t rounds);
};

// Tells the compiler that a value changes here, so that it keeps every instruction of a loop, in the
// order in which they stand: another takes more registers than there are.
template <class T>
[[gnu::always_inline]] inline void change(T& value) {
#if defined(__x86_64__)
  asm volatile("" : "+v"(value));
#else
  asm volatile("" : "+w"(value));
#endif
}

void multiply_floats(int64_t rounds) {
  float sums[16] = {};
  float factor = 0.5f;
  for (int64_t i = 0; i < rounds; ++i) {
    change(factor);
    for (float& sum : sums) sum = sum * factor + factor;
  }
  for (float& sum : sums) change(sum);
}

// A loop of `count` sums; `next` is made of `sum` and `factor`. A macro, for a function of a target
// inlines nothing that was written for another, and a template is written for one.
#define PYRITE_LOOP(name, attributes, Sum, count, Factor, start, next) \
  attributes void name(int64_t rounds) {                               \
    Sum sums[count] = {};                                              \
    Factor factor = start;                                             \
    for (int64_t i = 0; i < rounds; ++i) {                             \
      _Pragma("GCC unroll 16") for (Sum & sum : sums) {                \
        change(factor);                                                \
        sum = next;                                                    \
        change(sum);                                                   \
      }                                                                \
    }                                                                  \
  }

#if defined(__x86_64__)

#define PYRITE_AVX2 [[gnu::target("avx2,fma")]]
#define PYRITE_AVXVNNI [[gnu::target("avx2,avxvnni")]]
#define PYRITE_AVX512 [[gnu::target("avx512f,avx512vnni")]]

// Products of bytes, `kGroup` of them added up in 16 bits before they are widened.
template <int kGroup>
PYRITE_AVX2 [[gnu::always_inline]] inline __m256i sum_of_bytes(__m256i& codes) {
  __m256i narrow = _mm256_maddubs_epi16(codes, codes);
#pragma GCC unroll 7
  for (int group = 1; group < kGroup; ++group) {
    change(codes);
    narrow = _mm256_add_epi16(narrow, _mm256_maddubs_epi16(codes, codes));
    change(narrow);
  }
  return _mm256_madd_epi16(narrow, _mm256_set1_epi16(1));
}

PYRITE_LOOP(fused_256, PYRITE_AVX2, __m256, 12, __m256, _mm256_set1_ps(0.5f),
            _mm256_fmadd_ps(factor, factor, sum))
PYRITE_LOOP(words_256, PYRITE_AVX2, __m256i, 8, __m256i, _mm256_set1_epi16(3),
            _mm256_add_epi32(sum, _mm256_madd_epi16(factor, factor)))
template <int kGroup>
PYRITE_LOOP(bytes_256, PYRITE_AVX2, __m256i, 8, __m256i, _mm256_set1_epi8(3),
            _mm256_add_epi32(sum, sum_of_bytes<kGroup>(factor)))
PYRITE_LOOP(dot_bytes_256, PYRITE_AVXVNNI, __m256i, 12, __m256i, _mm256_set1_epi8(3),
            _mm256_dpbusd_avx_epi32(sum, factor, factor))
PYRITE_LOOP(dot_words_256, PYRITE_AVXVNNI, __m256i, 12, __m256i, _mm256_set1_epi16(3),
            _mm256_dpwssd_avx_epi32(sum, factor, factor))
PYRITE_LOOP(fused_512, PYRITE_AVX512, __m512, 12, __m512, _mm512_set1_ps(0.5f),
            _mm512_fmadd_ps(factor, factor, sum))
PYRITE_LOOP(dot_bytes_512, PYRITE_AVX512, __m512i, 12, __m512i, _mm512_set1_epi32(0x03030303),
            _mm512_dpbusd_epi32(sum, factor, factor))
PYRITE_LOOP(dot_words_512, PYRITE_AVX512, __m512i, 12, __m512i, _mm512_set1_epi32(0x00030003),
            _mm512_dpwssd_epi32(sum, factor, factor))

// Tiles of 16 rows of 64 bytes.
[[gnu::target("amx-tile,amx-int8")]] void dot_tiles(int64_t rounds) {
  struct alignas(64) Shapes {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  };
  static const Shapes shapes{};  // GCC sees the load of its first bytes alone: no stores may precede
  _tile_loadconfig(&shapes);
  alignas(64) static const uint8_t codes[16 * 64] = {3, 3, 3, 3};
  _tile_loadd(4, codes, 64);
  _tile_loadd(5, codes, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < rounds; i += kTileRounds) {
    _tile_dpbsud(0, 4, 5);
    _tile_dpbsud(1, 4, 5);
    _tile_dpbsud(2, 4, 5);
    _tile_dpbsud(3, 4, 5);
  }
  _tile_release();
}

#elif defined(__aarch64__)

#define PYRITE_NEON
#define PYRITE_DOTPROD [[gnu::target("arch=armv8.2-a+dotprod")]]
#define PYRITE_I8MM [[gnu::target("arch=armv8.2-a+i8mm")]]

PYRITE_LOOP(fused_128, PYRITE_NEON, float32x4_t, 16, float32x4_t, vdupq_n_f32(0.5f),
            vfmaq_f32(sum, factor, factor))
PYRITE_LOOP(words_128, PYRITE_NEON, int32x4_t, 16, int16x4_t, vdup_n_s16(3),
            vmlal_s16(sum, factor, factor))
PYRITE_LOOP(bytes_128, PYRITE_NEON, int16x8_t, 16, int8x8_t, vdup_n_s8(3),
            vmlal_s8(sum, factor, factor))
PYRITE_LOOP(dot_bytes_128, PYRITE_DOTPROD, int32x4_t, 16, int8x16_t, vdupq_n_s8(3),
            vdotq_s32(sum, factor, factor))
PYRITE_LOOP(squares_128, PYRITE_I8MM, int32x4_t, 16, int8x16_t, vdupq_n_s8(3),
            vmmlaq_s32(sum, factor, factor))

#endif

// Bits: an unsigned code of `bits` times a signed byte, in pairs, `group` times: 2 * group *
// (2^bits - 1) * 127 stays below 2^15. A pair of 8-bit codes does with the sign moved over.
constexpr Loop kLoops[] = {
    {"scalar", "float multiply, add", Factors::kFloats, 32, 16, multiply_floats},
#if defined(__x86_64__)
    {"avx2", "vfmadd231ps", Factors::kFloats, 32, 12 * 8, fused_256},
    {"avx2", "vpmaddwd, vpaddd", Factors::kWords, 16, 8 * 16, words_256},
    {"avx2", "vpmaddubsw, vpmaddwd, vpaddd", Factors::kBytes, 8, 8 * 1 * 32, bytes_256<1>},
    {"avx2", "2 x vpmaddubsw to one vpmaddwd", Factors::kBytes, 6, 8 * 2 * 32, bytes_256<2>},
    {"avx2", "4 x vpmaddubsw to one vpmaddwd", Factors::kBytes, 5, 8 * 4 * 32, bytes_256<4>},
    {"avx2", "8 x vpmaddubsw to one vpmaddwd", Factors::kBytes, 4, 8 * 8 * 32, bytes_256<8>},
    {"avxvnni", "vpdpwssd, 256 bits", Factors::kWords, 16, 12 * 16, dot_words_256},
    {"avxvnni", "vpdpbusd, 256 bits", Factors::kBytes, 8, 12 * 32, dot_bytes_256},
    {"avx512", "vfmadd231ps, 512 bits", Factors::kFloats, 32, 12 * 16, fused_512},
    {"avx512", "vpdpwssd, 512 bits", Factors::kWords, 16, 12 * 32, dot_words_512},
    {"avx512", "vpdpbusd, 512 bits", Factors::kBytes, 8, 12 * 64, dot_bytes_512},
    {"amx", "tdpbsud", Factors::kBytes, 8, 4 * 16 * 16 * 64 / kTileRounds, dot_tiles},
#elif defined(__aarch64__)
    {"neon", "fmla", Factors::kFloats, 32, 16 * 4, fused_128},
    {"neon", "smlal, words", Factors::kWords, 16, 16 * 4, words_128},
    {"neon", "smlal, bytes", Factors::kBytes, 5, 16 * 8, bytes_128},
    {"dotprod", "sdot", Factors::kBytes, 8, 16 * 16, dot_bytes_128},
    {"i8mm", "smmla", Factors::kBytes, 8, 16 * 32, squares_128},
#endif
};

}  // namespace

std::vector<Peak> compute_peaks(const std::string& isa, int num_threads) {
  std::vector<Peak> peaks;
  for (const Loop& loop : kLoops) {
    if (isa != loop.isa) continue;
    const double seconds =
        best_seconds(num_threads, kBudgetSeconds, [&](int) { loop.run(kRounds); });
    peaks.push_back({loop.isa, loop.instructions, loop.factors, loop.bits,
                     double(loop.products) * kRounds * num_threads / seconds});
  }
  return peaks;
}

}  // namespace pyrite
