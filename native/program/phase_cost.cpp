#include "program/phase_cost.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "program/team.h"

namespace pyrite {

namespace {

constexpr int kPhases = 500;
constexpr int kSteps = 60;
constexpr int kRounds = 2000;  // of a chunk: some microseconds, so that nobody does another's in time

void compute(void*, int, int, int) {
  for (int round = 0; round < kRounds; ++round) asm volatile("" ::: "memory");
}

// Of one step, at best.
double step_seconds(int num_threads, const std::vector<int>& chunks) {
  Team team(num_threads, int(chunks.size()), compute, nullptr);
  int64_t best = INT64_MAX;
  for (int step = 0; step < kSteps; ++step) {
    const Clock::time_point start = Clock::now();
    team.run(chunks);
    best = std::min(best, nanoseconds_since(start));
  }
  return double(best) * 1e-9;
}

}  // namespace

double phase_seconds(int num_threads) {
  const double alone = step_seconds(1, {kPhases});
  const double together = step_seconds(num_threads, std::vector<int>(kPhases, num_threads));
  return std::max(0.0, together - alone) / kPhases;
}

}  // namespace pyrite
