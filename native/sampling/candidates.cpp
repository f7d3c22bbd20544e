#include "sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

namespace pyrite {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::ptrdiff_t kSortBelow = 32;  // so few places are sorted rather than halved again

}  // namespace

void Candidates::choose(const float* row, int size, const RowScan& scan, const Settings& settings,
                        double coin) {
  max_ = scan.max;
  inverse_temperature_ = float(1 / settings.temperature);
  if (settings.top_k > 0 && settings.top_k < size) {
    gather_top(row, size, scan, settings.top_k);
    weigh();
  } else if (settings.typical_p < 1) {
    gather(row, size, scan, -kInfinity);
    weigh();
  } else if (settings.top_p < 1) {
    gather_mass(row, size, scan, settings.top_p);
  } else {
    gather_above(row, size, scan, settings.min_p);
  }
  if (settings.typical_p < 1) keep_typical(settings.typical_p);
  if (settings.top_p < 1) keep_mass(settings.top_p);
  if (settings.min_p > 0) keep_above(settings.min_p);
  if (coin < settings.xtc_probability) exclude_top_choices(settings.xtc_threshold);
}

void Candidates::choose_top(const float* row, int size, const RowScan& scan, int count) {
  gather_top(row, size, scan, count);
  std::sort(list_.begin(), list_.begin() + count_, [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
}

int Candidates::pick(double draw) const {
  const double wanted = draw * total();
  double sum = 0;
  for (const Candidate& candidate : list()) {
    sum += candidate.weight;
    if (sum > wanted) return candidate.token;
  }
  return list().back().token;
}

// Every token whose logit is at least `lowest`, minus infinity excepted. Only blocks that hold one
// are walked. Without a branch on the logit: where many pass, it would be mispredicted.
void Candidates::gather(const float* row, int size, const RowScan& scan, double lowest) {
  if (list_.size() < size_t(size)) list_.resize(size);
  count_ = 0;
  for (size_t block = 0; block < scan.block_max.size(); ++block) {
    if (!(scan.block_max[block] >= lowest)) continue;
    const int start = int(block) * kRowBlock;
    const int end = std::min(size, start + kRowBlock);
    for (int token = start; token < end; ++token) {
      list_[count_] = {row[token], 0, token};
      count_ += (row[token] >= lowest) & (row[token] > -kInfinity);
    }
  }
}

// At least `count` logits are no smaller than the count-th largest maximum of a block.
void Candidates::gather_top(const float* row, int size, const RowScan& scan, int count) {
  double lowest = -kInfinity;
  if (count <= int(scan.block_max.size())) {
    maxima_ = scan.block_max;
    const auto last = maxima_.begin() + (count - 1);
    std::nth_element(maxima_.begin(), last, maxima_.end(), std::greater<float>());
    lowest = *last;
  }
  gather(row, size, scan, lowest);
  keep_top(size_t(count));
}

// Likeliest tokens that hold at least `share` of the whole weight, and more of them than need be.
void Candidates::gather_mass(const float* row, int size, const RowScan& scan, double share) {
  sum_.read(row, size, max_, inverse_temperature_);
  gather(row, size, scan, max_ - sum_.depth_of(share) / inverse_temperature_);
  weigh();
  mass_ = sum_.total;
}

// A superset of what `keep_above` keeps; the slack covers the rounding of weights.
void Candidates::gather_above(const float* row, int size, const RowScan& scan, double share) {
  constexpr double kSlack = 0.01;
  gather(row, size, scan, max_ + (std::log(share) - kSlack) / inverse_temperature_);
  weigh();
}

// Fills in weights, and drops the tokens that have none.
void Candidates::weigh() {
  for (Candidate& candidate : current()) candidate.weight = exp_negative(scaled(candidate));
  keep_if([](const Candidate& candidate) { return candidate.weight > 0; });
  mass_ = total();
}

double Candidates::total() const {
  double sum = 0;
  for (const Candidate& candidate : list()) sum += candidate.weight;
  return sum;
}

void Candidates::keep_top(size_t count) {
  if (count >= count_) return;
  places_.clear();
  for (const Candidate& candidate : list()) {
    places_.push_back({-double(candidate.logit), 0, candidate.token});
  }
  const auto last = places_.begin() + (count - 1);
  std::nth_element(places_.begin(), last, places_.end());
  keep_if([last = *last](const Candidate& candidate) {
    return !(last < Place{-double(candidate.logit), 0, candidate.token});
  });
}

// Locally typical sampling (Meister, Pimentel, Wiher, Cotterell 2022): the tokens whose surprise is
// nearest the entropy, until they hold `share`. Surprise less entropy is the mean of the scaled
// logits less the token's own, for the logarithm of the sum is in both.
void Candidates::keep_typical(double share) {
  double mean = 0;
  for (const Candidate& candidate : list()) mean += candidate.weight * double(scaled(candidate));
  mean /= mass_;
  const auto distance = [&](const Candidate& candidate) {
    return std::abs(mean - scaled(candidate));
  };
  keep_nearest(share * mass_, distance, distance);
}

void Candidates::keep_mass(double share) {
  const auto distance = [](const Candidate& candidate) { return -double(candidate.logit); };
  keep_nearest(share * mass_, distance, [&](const Candidate& candidate) {
    return double(-scaled(candidate));
  });
}

void Candidates::keep_above(double share) {
  float largest = 0;
  for (const Candidate& candidate : list()) largest = std::max(largest, candidate.weight);
  const double lowest = share * largest;
  keep_if([&](const Candidate& candidate) { return candidate.weight >= lowest; });
  mass_ = total();
}

// XTC ("exclude top choices", p-e-w, text-generation-webui pull request 6335): of the tokens whose
// probability reaches the threshold, only the least likely stays.
void Candidates::exclude_top_choices(double threshold) {
  const double lowest = threshold * mass_;
  Place weakest = {-kInfinity, 0, -1};
  for (const Candidate& candidate : list()) {
    const Place place = {-double(candidate.logit), 0, candidate.token};
    if (candidate.weight >= lowest && weakest < place) weakest = place;
  }
  keep_if([&](const Candidate& candidate) {
    return candidate.weight < lowest || candidate.token == weakest.token;
  });
}

template <class Keep>
void Candidates::keep_if(Keep keep) {
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    const Candidate candidate = list_[i];
    list_[kept] = candidate;
    kept += keep(candidate);
  }
  count_ = kept;
}

// Keeps the shortest beginning of the order by `distance` whose weights reach `wanted`. `depth`,
// from 0 to some 88 nats, rises with the distance: the weights of its buckets tell which bucket the
// sum reaches `wanted` in, and only that one is put in order.
template <class Distance, class Depth>
void Candidates::keep_nearest(double wanted, Distance distance, Depth depth) {
  const auto bucket = [&](const Candidate& candidate) {
    return std::min(int(depth(candidate) * kBucketsPerNat), kBuckets - 1);
  };
  const auto place = [&](const Candidate& candidate) {
    return Place{distance(candidate), candidate.weight, candidate.token};
  };
  bucket_mass_.fill(0);
  for (const Candidate& candidate : list()) bucket_mass_[bucket(candidate)] += candidate.weight;
  double sum = 0;  // of the buckets before `crossed`
  int crossed = 0;
  const auto falls_short = [&](double mass) { return mass == 0 || sum + mass < wanted; };
  while (crossed < kBuckets - 1 && falls_short(bucket_mass_[crossed])) {
    sum += bucket_mass_[crossed++];
  }
  places_.clear();
  for (const Candidate& candidate : list()) {
    if (bucket(candidate) == crossed) places_.push_back(place(candidate));
  }
  const Place last = last_of_mass(wanted - sum);
  keep_if([&](const Candidate& candidate) { return !(last < place(candidate)); });
  mass_ = total();
}

// The last of the shortest beginning of the places' order whose weights reach `wanted`, or of them
// all where rounding left their sum short of it. Halves the places around the median until few are
// left: linear even if all are alike.
Candidates::Place Candidates::last_of_mass(double wanted) {
  if (places_.empty()) return {kInfinity, 0, -1};
  auto first = places_.begin(), end = places_.end();
  double sum = 0;  // of the places before `first`
  while (end - first > kSortBelow) {
    const auto middle = first + (end - first) / 2;
    std::nth_element(first, middle, end);
    double half = 0;
    for (auto at = first; at != middle; ++at) half += at->weight;
    if (sum + half >= wanted) {
      end = middle;
    } else {
      sum += half;
      first = middle;
    }
  }
  std::sort(first, end);
  for (auto at = first; at != end; ++at) {
    sum += at->weight;
    if (sum >= wanted) return *at;
  }
  return *(end - 1);
}

}  // namespace pyrite
