#pragma once
// What this machine can do at most, measured: how fast threads read memory, and how many products a
// second the instructions that kernels are made of give when nothing else is in the way. Knows no
// model and no kernel.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pyrite {

struct ReadSpeed {
  double bytes_per_second;  // of all threads together
  std::string way;          // the loop that read fastest
};

// Threads read a buffer of `bytes` again and again, each its own part, which it touched first: what
// is measured is the level of memory that holds so many bytes. Huge pages where the system has
// them. The best round of the best of several loops counts.
ReadSpeed read_bandwidth(int num_threads, size_t bytes);

// What an instruction multiplies: floats, 16-bit words, or bytes. `bits`: the widest weights for
// which its sums cannot overflow before they are widened.
enum class Factors { kFloats, kWords, kBytes };

struct Peak {
  std::string isa;
  std::string instructions;
  Factors factors;
  int bits;
  double products_per_second;  // of all threads together
};

// The peaks of the instructions that the named instruction set adds to those below it. The caller
// knows that it is present.
std::vector<Peak> compute_peaks(const std::string& isa, int num_threads);

// Seconds from the moment that all threads are there until the last is done, at best of rounds that
// together last about `budget_seconds`; at least three, for others share the machine.
double best_seconds(int num_threads, double budget_seconds, const std::function<void(int)>& work);

}  // namespace pyrite
