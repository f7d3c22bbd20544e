#include "probe/limits.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pyrite {

namespace {

constexpr int kChains = 12;  // independent sums: more than latency times issue width

struct Probe {
  const char* instructions;
  int64_t per_turn;  // multiply-adds of one turn of the loop
  int64_t (*turns)(int64_t count);
};

#if defined(__x86_64__)

__attribute__((target("avx512f"))) int64_t floats_avx512(int64_t count) {
  __m512 sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_ps(float(c));
  const __m512 factor = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < count; ++i) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  float total = 0;
  for (const __m512& sum : sums) total += _mm512_reduce_add_ps(sum);
  return int64_t(total);
}

__attribute__((target("avx2,fma"))) int64_t floats_avx2(int64_t count) {
  __m256 sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm256_set1_ps(float(c));
  const __m256 factor = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < count; ++i) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  float total = 0;
  for (const __m256& sum : sums) total += _mm256_cvtss_f32(sum);
  return int64_t(total);
}

__attribute__((target("avx512f,avx512vnni"))) int64_t bytes_vnni(int64_t count) {
  __m512i sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_epi32(c);
  __m512i left = _mm512_set1_epi8(3);
  const __m512i right = _mm512_set1_epi8(5);
  for (int64_t i = 0; i < count; ++i) {
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, left, right);
    asm volatile("" : "+v"(left));  // or the loop is folded into a product
  }
  int64_t total = 0;
  for (const __m512i& sum : sums) total += _mm512_reduce_add_epi32(sum);
  return total;
}

// Eight products fit into 16 bits before they are widened, as in the kernels for 4-bit weights.
__attribute__((target("avx2"))) int64_t bytes_avx2(int64_t count) {
  constexpr int kAdded = 4;
  __m256i sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm256_set1_epi32(c);
  __m256i left = _mm256_set1_epi8(3);
  const __m256i right = _mm256_set1_epi8(5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < count; ++i) {
    for (__m256i& sum : sums) {
      __m256i products = _mm256_maddubs_epi16(left, right);
      for (int k = 1; k < kAdded; ++k) {
        asm volatile("" : "+x"(left));
        products = _mm256_add_epi16(products, _mm256_maddubs_epi16(left, right));
      }
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(products, ones));
    }
  }
  int64_t total = 0;
  for (const __m256i& sum : sums) total += _mm256_extract_epi32(sum, 0);
  return total;
}

#endif

// Plain loops over 16 lanes, which a compiler turns into what the target has at least.
int64_t floats_plain(int64_t count) {
  float sums[kChains][16];
  for (int c = 0; c < kChains; ++c) {
    for (float& lane : sums[c]) lane = float(c);
  }
  for (int64_t i = 0; i < count; ++i) {
    for (auto& chain : sums) {
      for (float& lane : chain) lane = lane * 0.5f + 0.5f;
    }
  }
  float total = 0;
  for (const auto& chain : sums) total += chain[0] + chain[15];
  return int64_t(total);
}

int64_t bytes_plain(int64_t count) {
  int32_t sums[kChains][16] = {};
  int8_t left[16];
  std::memset(left, 3, sizeof left);
  for (int64_t i = 0; i < count; ++i) {
    asm volatile("" : "+m"(left));
    for (auto& chain : sums) {
      for (int lane = 0; lane < 16; ++lane) chain[lane] += left[lane] * 5;
    }
  }
  int64_t total = 0;
  for (const auto& chain : sums) total += chain[0] + chain[15];
  return total;
}

Probe float_probe() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {"AVX-512 FMA", kChains * 16, floats_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"AVX2 FMA", kChains * 8, floats_avx2};
  }
#endif
  return {"portable float", kChains * 16, floats_plain};
}

Probe byte_probe() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) return {"AVX-512 VNNI", kChains * 64, bytes_vnni};
  if (__builtin_cpu_supports("avx2")) return {"AVX2 vpmaddubsw", kChains * 4 * 32, bytes_avx2};
#endif
  return {"portable integer", kChains * 16, bytes_plain};
}

int64_t work(const Probe& probe, int64_t count, int64_t* done) {
  const int64_t turns = count / probe.per_turn + 1;
  *done = turns * probe.per_turn;
  return probe.turns(turns);
}

}  // namespace

uint64_t read_all(const uint8_t* data, size_t size) {
  uint64_t sums[8] = {};
  size_t at = 0;
  for (; at + 64 <= size; at += 64) {
    uint64_t words[8];
    std::memcpy(words, data + at, 64);
    for (int w = 0; w < 8; ++w) sums[w] += words[w];
  }
  for (; at < size; ++at) sums[0] += data[at];
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

int64_t float_multiply_adds(int64_t count, int64_t* done) {
  return work(float_probe(), count, done);
}

int64_t byte_multiply_adds(int64_t count, int64_t* done) { return work(byte_probe(), count, done); }

const char* float_instructions() { return float_probe().instructions; }

const char* byte_instructions() { return byte_probe().instructions; }

}  // namespace pyrite
