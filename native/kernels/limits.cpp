#include "kernels/limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace pyrite {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

double round_seconds(int num_threads, const std::function<void(int)>& work) {
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
  return seconds_between(*std::min_element(starts.begin(), starts.end()),
                         *std::max_element(ends.begin(), ends.end()));
}

}  // namespace

double best_seconds(int num_threads, double budget_seconds,
                    const std::function<void(int)>& work) {
  constexpr int kFewestRounds = 3;
  const Clock::time_point start = Clock::now();
  double best = 1e30;
  for (int round = 0;
       round < kFewestRounds || seconds_between(start, Clock::now()) < budget_seconds; ++round) {
    best = std::min(best, round_seconds(num_threads, work));
  }
  return best;
}

}  // namespace pyrite
