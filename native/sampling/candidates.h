#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/row.h"
#include "sampling/settings.h"

namespace pyrite {

// A token that may still be drawn.
struct Candidate {
  float logit;
  float weight;  // e^((logit - largest) / temperature): its probability times some constant
  int32_t token;
};

// The tokens that the filters leave, in ascending order of id. Filters run in the order top_k,
// typical_p, top_p, min_p, XTC; each sees the probabilities renormalised over what the one before
// it left, keeps at least one token, and breaks ties in favour of the lower id. None sorts the row:
// a filter finds the last token it keeps by selection or by buckets, then walks the list once.
class Candidates {
 public:
  // `coin` in [0, 1) decides whether XTC takes effect in this step.
  void choose(const float* row, int size, const RowScan& scan, const Settings& settings,
              double coin);
  // The first token, ascending, at which the running sum of weights passes `draw` * their sum.
  int pick(double draw) const;
  std::span<const Candidate> list() const { return {list_.data(), count_}; }

  // The `count` likeliest, best first, without weights. For log-probabilities.
  void choose_top(const float* row, int size, const RowScan& scan, int count);

 private:
  // A token's place in an order: lower distances first, lower ids first among equals.
  struct Place {
    double distance;
    float weight;
    int32_t token;

    bool operator<(const Place& other) const {
      return distance != other.distance ? distance < other.distance : token < other.token;
    }
  };

  void gather(const float* row, int size, const RowScan& scan, double lowest);
  void gather_top(const float* row, int size, const RowScan& scan, int count);
  void gather_mass(const float* row, int size, const RowScan& scan, double share);
  void gather_above(const float* row, int size, const RowScan& scan, double share);
  void weigh();
  double total() const;

  void keep_top(size_t count);
  void keep_typical(double share);
  void keep_mass(double share);
  void keep_above(double share);
  void exclude_top_choices(double threshold);

  std::span<Candidate> current() { return {list_.data(), count_}; }
  float scaled(const Candidate& candidate) const {
    return (candidate.logit - max_) * inverse_temperature_;
  }
  template <class Keep>
  void keep_if(Keep keep);
  template <class Distance, class Depth>
  void keep_nearest(double wanted, Distance distance, Depth depth);
  Place last_of_mass(double wanted);

  static constexpr int kBucketsPerNat = 16;
  static constexpr int kBuckets = 128 * kBucketsPerNat;

  float max_ = 0;
  float inverse_temperature_ = 1;
  double mass_ = 0;  // the weight that shares refer to: of the list, or of more that a filter drops
  size_t count_ = 0;
  std::vector<Candidate> list_;  // the first `count_` are the candidates
  std::vector<Place> places_;
  std::vector<float> maxima_;
  std::array<double, kBuckets> bucket_mass_;
  RowSum sum_;
};

}  // namespace pyrite
