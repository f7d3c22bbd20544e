// Kernels that carry a state, on every instruction set that is here: near the plain ones, and the same
// bits however the rows are cut into calls. Buffers are just as large as they have to be, for the
// address sanitizer.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/table.h"

using namespace pyrite;

namespace {

using Floats = std::vector<float>;

constexpr int kRows = 37;
constexpr int kCuts[] = {1, 4, 16, 9, 7};  // rows of each call

// Sums over states that fade, of values near one; where plain C++ has no fused multiply-add every
// token rounds once more.
constexpr float kTolerance = 1e-4f;

Floats uniform(size_t size, unsigned seed, float low, float high) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  Floats out(size);
  for (float& value : out) value = distribution(random);
  return out;
}

// One kernel on rows [first, first + count), each input (kRows, width).
struct Case {
  size_t state_floats;
  int out_width;
  void (*run)(const RecurrentKernels& kernels, int first, int count, float* state, float* out,
              const int* shape);
  std::vector<int> shape;
};

Strip rows_of(const Floats& values, int first, int width) {
  return {values.data() + size_t(first) * size_t(width), size_t(width)};
}

OutStrip rows_of(float* values, int first, int width) {
  return {values + size_t(first) * size_t(width), size_t(width)};
}

void convolve(const RecurrentKernels& kernels, int first, int count, float* state, float* out,
              const int* shape) {
  const int width = shape[0], taps = shape[1];
  const Floats in = uniform(size_t(kRows * width), 1, -1, 1);
  const Floats weights = uniform(size_t(taps * width), 2, -1, 1);
  const Floats bias = uniform(size_t(width), 3, -1, 1);
  kernels.convolve({count, width, taps, rows_of(in, first, width), rows_of(weights, 0, width),
                    bias.data(), Activation::kSilu, rows_of(state, 0, width),
                    rows_of(out, first, width)});
}

void scan(const RecurrentKernels& kernels, int first, int count, float* state, float* out,
          const int* shape) {
  const int width = shape[0], state_width = shape[1];
  const bool by_state = shape[2] != 0;
  const int heads = by_state ? width : 1;
  const Floats x = uniform(size_t(kRows * width), 1, -1, 1);
  const Floats step = uniform(size_t(kRows * heads), 2, -3, 3);
  const Floats b = uniform(size_t(kRows * state_width), 3, -1, 1);
  const Floats c = uniform(size_t(kRows * state_width), 4, -1, 1);
  const Floats a = uniform(size_t(heads * (by_state ? state_width : 1)), 5, -2, -0.1f);
  const Floats d = uniform(size_t(heads), 6, -1, 1);
  const Floats bias = uniform(size_t(heads), 7, -1, 1);
  (by_state ? kernels.scan_by_state : kernels.scan_by_head)(
      {count, width, state_width, rows_of(x, first, width), rows_of(step, first, heads),
       rows_of(b, first, state_width), rows_of(c, first, state_width), a.data(), d.data(),
       bias.data(), 0.01f, 2.0f, state, rows_of(out, first, width)});
}

void wkv4(const RecurrentKernels& kernels, int first, int count, float* state, float* out,
          const int* shape) {
  const int width = shape[0];
  const Floats key = uniform(size_t(kRows * width), 1, -3, 3);
  const Floats value = uniform(size_t(kRows * width), 2, -1, 1);
  const Floats decay = uniform(size_t(width), 3, -2, -0.1f);
  const Floats start = uniform(size_t(width), 4, -1, 1);
  kernels.wkv4({count, width, rows_of(key, first, width), rows_of(value, first, width),
                decay.data(), start.data(), rows_of(state, 0, width), rows_of(out, first, width)});
}

void wkv7(const RecurrentKernels& kernels, int first, int count, float* state, float* out,
          const int* shape) {
  const int width = shape[0];
  const float most = 1.0f / std::sqrt(float(width));  // of removal, which is no longer than one
  std::vector<Floats> inputs;
  for (unsigned i = 0; i < 5; ++i) inputs.push_back(uniform(size_t(kRows * width), i, -1, 1));
  const Floats removal = uniform(size_t(kRows * width), 9, -most, most);
  const auto strip = [&](const Floats& values) { return rows_of(values, first, width); };
  kernels.wkv7({count, width, strip(inputs[0]), strip(inputs[1]), strip(inputs[2]),
                strip(inputs[3]), strip(removal), strip(inputs[4]), state,
                rows_of(out, first, width)});
}

void delta(const RecurrentKernels& kernels, int first, int count, float* state, float* out,
           const int* shape) {
  const int keys = shape[0], values = shape[1];
  const float most = 1.0f / std::sqrt(float(keys));  // of keys, which are no longer than one
  const Floats query = uniform(size_t(kRows * keys), 1, -1, 1);
  const Floats key = uniform(size_t(kRows * keys), 2, -most, most);
  const Floats value = uniform(size_t(kRows * values), 3, -1, 1);
  const Floats step = uniform(size_t(kRows), 4, -3, 3);
  const Floats rate = uniform(size_t(kRows), 5, -3, 3);
  kernels.delta({count, keys, values, rows_of(query, first, keys), rows_of(key, first, keys),
                 rows_of(value, first, values), rows_of(step, first, 1), rows_of(rate, first, 1),
                 -0.5f, 0.1f, state, rows_of(out, first, values)});
}

// What comes out, then the state that is left.
Floats whole(const RecurrentKernels& kernels, const Case& one) {
  Floats state = uniform(one.state_floats, 11, 0.1f, 1);
  Floats out(size_t(kRows * one.out_width));
  one.run(kernels, 0, kRows, state.data(), out.data(), one.shape.data());
  out.insert(out.end(), state.begin(), state.end());
  return out;
}

Floats in_pieces(const RecurrentKernels& kernels, const Case& one) {
  Floats state = uniform(one.state_floats, 11, 0.1f, 1);
  Floats out(size_t(kRows * one.out_width));
  int first = 0;
  for (int count : kCuts) {
    one.run(kernels, first, count, state.data(), out.data(), one.shape.data());
    first += count;
  }
  CHECK(first == kRows);
  out.insert(out.end(), state.begin(), state.end());
  return out;
}

void check_close(const Floats& found, const Floats& expected) {
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(std::fabs(found[i] - expected[i]) <= kTolerance * std::fmax(1.0f, std::fabs(expected[i])));
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int width : {5, 16, 40}) {
    for (int taps : {2, 4, kMostTaps}) {
      all.push_back({size_t((taps - 1) * width), width, convolve, {width, taps}});
    }
    for (int state_width : {1, 16, 23}) {
      const size_t floats = size_t(width * state_width);
      all.push_back({floats, width, scan, {width, state_width, 0}});
      if (width <= 16) all.push_back({floats, width, scan, {width, state_width, 1}});
    }
    all.push_back({size_t(3 * width), width, wkv4, {width}});
    all.push_back({size_t(width * width), width, wkv7, {width}});
  }
  all.push_back({size_t(64 * 64), 64, wkv7, {64}});
  all.push_back({size_t(5 * 40), 40, delta, {5, 40}});
  all.push_back({size_t(64 * 32), 32, delta, {64, 32}});
  return all;
}

}  // namespace

int main() {
  const char* error = nullptr;
  const KernelTable* plain = kernel_table("scalar", &error);
  for (const Case& one : cases()) {
    const Floats expected = whole(plain->recurrence, one);
    for (const char* name : kIsaNames) {
      const KernelTable* table = kernel_table(name, &error);
      if (table == nullptr) continue;
      const Floats found = whole(table->recurrence, one);
      check_close(found, expected);
      const Floats cut = in_pieces(table->recurrence, one);
      CHECK(std::memcmp(found.data(), cut.data(), found.size() * sizeof(float)) == 0);
    }
  }
}
