#pragma once
// How a waiting thread spends its time: it spins, then gives its core away, then asks to be parked.

#include <sched.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace pyrite {

constexpr int kYields = 32;

inline void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Waits a little. Returns true from the round on at which the caller should park.
inline bool backoff(int round, int spins) {
  if (round < spins) {
    pause_core();
    return false;
  }
  if (round < spins + kYields) {
    sched_yield();
    return false;
  }
  return true;
}

}  // namespace pyrite
