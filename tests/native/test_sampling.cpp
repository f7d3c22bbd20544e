// The sampler on whatever rows and settings, meant for the sanitizers; that it allocates nothing
// once warm; and the accuracy that its exponential claims. Right tokens are for the Python tests.

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>
#include <random>
#include <vector>

#include "check.h"
#include "sampling/sampler.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// Out of line, or GCC 12 takes the free within for one of a stranger.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

using namespace pyrite;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Dice {
  std::mt19937 engine{5};

  int below(int limit) { return int(engine() % uint32_t(limit)); }
  double share() { return below(5) == 0 ? below(2) : below(1000) / 1000.0; }
  std::vector<int32_t> ids(int count, int limit) {
    std::vector<int32_t> drawn(count);
    for (int32_t& id : drawn) id = below(limit);
    return drawn;
  }
};

Settings any_settings(Dice& dice) {
  Settings settings;
  settings.temperature = dice.below(4) == 0 ? 0 : 0.05 + dice.below(20) / 10.0;
  settings.top_k = dice.below(2) ? dice.below(100) : 0;
  settings.top_p = dice.below(2) ? dice.share() : 1;
  settings.min_p = dice.below(2) ? dice.share() : 0;
  settings.typical_p = dice.below(2) ? dice.share() : 1;
  settings.xtc_probability = dice.below(2);
  settings.xtc_threshold = dice.share() / 2;
  settings.repetition_penalty = dice.below(2) ? 1.3f : 1;
  settings.frequency_penalty = dice.below(2) ? 0.5f : 0;
  settings.dry_multiplier = dice.below(2);
  settings.dry_allowed_length = 1 + dice.below(3);
  settings.dry_range = dice.below(3) - 1;
  settings.min_tokens = dice.below(3);
  settings.seed = dice.engine();
  return settings;
}

float any_logit(Dice& dice) {
  switch (dice.below(8)) {
    case 0: return -kInfinity;
    case 1: return float(dice.below(9) - 4);
    default: return (dice.below(4000) - 2000) / 100.0f;
  }
}

// A row of its exact size on the heap, so that a read past its end is noticed.
std::vector<float> any_row(Dice& dice, int size) {
  std::vector<float> row(size);
  for (float& logit : row) logit = any_logit(dice);
  if (dice.below(20) == 0) row[dice.below(size)] = dice.below(2) ? kInfinity : NAN;
  return row;
}

void continues_on_any_rows() {
  Dice dice;
  Scratch scratch;
  for (int round = 0; round < 3000; ++round) {
    const int size = 1 + dice.below(round % 10 == 0 ? 3000 : 200);
    SamplerState state(any_settings(dice), size, dice.ids(dice.below(30), size),
                       {{dice.below(size), 5.0f}}, dice.ids(dice.below(3), size),
                       dice.ids(dice.below(3), size));
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> row = any_row(dice, size);
      const Drawn drawn = sample(state, row.data(), nullptr, scratch);
      if (drawn.status != Status::kDrawn) continue;
      CHECK(drawn.token >= 0 && drawn.token < size);
      CHECK(row[drawn.token] > -kInfinity);
      int32_t tokens[20];
      float logprobs[20];
      const float own = log_probabilities(row.data(), size, drawn.token, 20, scratch, tokens,
                                          logprobs);
      CHECK(own <= logprobs[0] && std::isfinite(own));
      state.accept(drawn.token);
    }
  }
}

void allocates_nothing_once_warm() {
  constexpr int kSize = 5000;
  Dice dice;
  Scratch scratch;
  std::vector<float> row(kSize);
  for (float& logit : row) logit = float(dice.below(1000)) / 100;
  for (int round = 0; round < 200; ++round) {
    const SamplerState state(any_settings(dice), kSize, dice.ids(500, 50), {}, {}, {});
    sample(state, row.data(), nullptr, scratch);
    const long before = allocations;
    sample(state, row.data(), nullptr, scratch);
    CHECK(allocations == before);
  }
}

// Distance in units of the last place of the result, at a million floats of [-87, 0].
void exponential_is_as_accurate_as_it_says() {
  CHECK(exp_negative(0) == 1 && exp_negative(-0.0f) == 1);
  CHECK(exp_negative(-kInfinity) == 0 && exp_negative(-87.1f) == 0);
  double worst = 0;
  float z = kExpLowest;
  while (z < 0) {
    const double exact = std::exp(double(z));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(exp_negative(z) - exact) / unit);
    const float next = z * (1 - 1e-5f);
    z = next > -1e-6f ? 0 : next;
  }
  std::printf("exp_negative: at worst %.2f units in the last place\n", worst);
  CHECK(worst <= 2);
}

}  // namespace

int main() {
  continues_on_any_rows();
  allocates_nothing_once_warm();
  exponential_is_as_accurate_as_it_says();
  return 0;
}
