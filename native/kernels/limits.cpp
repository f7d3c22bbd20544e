#include "kernels/limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pyrite {

namespace {

constexpr int kRepeats = 20;  // the best one counts: others share the machine
constexpr int64_t kRounds = 1 << 17;
constexpr int64_t kTileRounds = 8;  // of these, one turn on tiles: it does so much more

using Clock = std::chrono::steady_clock;

// Seconds from the moment that all threads are there until the last is done, at best.
double best_seconds(int num_threads, const std::function<void(int)>& work) {
  double best = 1e30;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::atomic<int> waiting{num_threads};
    std::vector<std::thread> threads;
    std::vector<Clock::time_point> starts(num_threads), ends(num_threads);
    for (int thread = 0; thread < num_threads; ++thread) {
      threads.emplace_back([&, thread] {
        --waiting;
        while (waiting.load() > 0) std::this_thread::yield();
        starts[thread] = Clock::now();
        work(thread);
        ends[thread] = Clock::now();
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto span = *std::max_element(ends.begin(), ends.end()) -
                      *std::min_element(starts.begin(), starts.end());
    best = std::min(best, std::chrono::duration<double>(span).count());
  }
  return best;
}

// A loop over one kind of instruction; the number of products in one round.
struct Loop {
  const char* isa;
  const char* name;
  int64_t products;
  void (*run)(int64_t rounds);
};

// Tells the compiler that a value changes here, so that it keeps every instruction of a loop.
template <class T>
[[gnu::always_inline]] inline void change(T& value) {
#if defined(__x86_64__)
  asm volatile("" : "+x"(value));
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

#if defined(__x86_64__)

[[gnu::target("avx2,fma")]] void fused_256(int64_t rounds) {
  __m256 sums[12] = {};
  __m256 factor = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) {
      change(factor);
      sum = _mm256_fmadd_ps(factor, factor, sum);
    }
  }
  for (__m256& sum : sums) change(sum);
}

[[gnu::target("avx2")]] void widen_each_product(int64_t rounds) {
  __m256i sums[8] = {};
  __m256i codes = _mm256_set1_epi8(3);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 8
    for (__m256i& sum : sums) {
      change(codes);
      const __m256i pairs = _mm256_maddubs_epi16(codes, codes);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
  }
  for (__m256i& sum : sums) change(sum);
}

[[gnu::target("avx2")]] void widen_eight_products(int64_t rounds) {
  __m256i sums[4] = {};
  __m256i codes = _mm256_set1_epi8(3);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
    __m256i narrow[4];
    for (__m256i& sum : narrow) sum = _mm256_maddubs_epi16(codes, codes);
#pragma GCC unroll 7
    for (int group = 1; group < 8; ++group) {
#pragma GCC unroll 4
      for (__m256i& sum : narrow) {
        change(codes);
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, codes));
      }
    }
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      sums[s] = _mm256_add_epi32(sums[s], _mm256_madd_epi16(narrow[s], ones));
    }
  }
  for (__m256i& sum : sums) change(sum);
}

[[gnu::target("avx2")]] void multiply_words(int64_t rounds) {
  __m256i sums[8] = {};
  __m256i words = _mm256_set1_epi16(3);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 8
    for (__m256i& sum : sums) {
      change(words);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, words));
    }
  }
  for (__m256i& sum : sums) change(sum);
}

[[gnu::target("avx512f,avx512vnni")]] void dot_bytes_512(int64_t rounds) {
  __m512i sums[12] = {};
  __m512i codes = _mm512_set1_epi32(0x03030303);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m512i& sum : sums) {
      asm volatile("" : "+v"(codes));
      sum = _mm512_dpbusd_epi32(sum, codes, codes);
    }
  }
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
}

[[gnu::target("avx512f")]] void fused_512(int64_t rounds) {
  __m512 sums[12] = {};
  __m512 factor = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      asm volatile("" : "+v"(factor));
      sum = _mm512_fmadd_ps(factor, factor, sum);
    }
  }
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
}

// Tiles of 16 rows of 64 bytes; four sums, so that none waits for itself.
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

#endif

constexpr Loop kLoops[] = {
    {"scalar", "float multiply, add", 16, multiply_floats},
#if defined(__x86_64__)
    {"avx2", "vfmadd231ps", 12 * 8, fused_256},
    {"avx2", "vpmaddwd, vpaddd", 8 * 16, multiply_words},
    {"avx2", "vpmaddubsw, vpmaddwd, vpaddd", 8 * 32, widen_each_product},
    {"avx2", "8 x vpmaddubsw to one vpmaddwd", 4 * 8 * 32, widen_eight_products},
    {"avx512", "vfmadd231ps", 12 * 16, fused_512},
    {"avx512", "vpdpbusd", 12 * 64, dot_bytes_512},
    {"amx", "tdpbsud", 4 * 16 * 16 * 64 / kTileRounds, dot_tiles},
#endif
};

// A sum over bytes [0, size) that touches each cache line once in a vector load.
uint64_t read_all(const uint64_t* words, size_t size) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= size / 8; i += 8) {
#if defined(__GNUC__)
    __builtin_prefetch(words + i + 256);
#endif
    for (int s = 0; s < 8; ++s) sums[s] += words[i + s];
  }
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

double read_bandwidth(int num_threads, size_t bytes) {
  const size_t part = bytes / num_threads / 64 * 64;
  const size_t words = part / 8 * num_threads + 256;  // the last prefetches stay inside
  std::unique_ptr<uint64_t[]> buffer(new uint64_t[words]);
  std::memset(buffer.get(), 1, words * 8);
  std::vector<uint64_t> totals(num_threads);
  const double seconds = best_seconds(num_threads, [&](int thread) {
    totals[thread] = read_all(buffer.get() + part / 8 * thread, part);
  });
  volatile uint64_t kept = totals[0];
  (void)kept;
  return double(part) * num_threads / seconds;
}

std::vector<Peak> compute_peaks(const std::string& isa, int num_threads) {
  std::vector<Peak> peaks;
  for (const Loop& loop : kLoops) {
    if (isa != loop.isa) continue;
    const double seconds = best_seconds(num_threads, [&](int) { loop.run(kRounds); });
    peaks.push_back({loop.name, double(loop.products) * kRounds * num_threads / seconds});
  }
  return peaks;
}

}  // namespace pyrite
