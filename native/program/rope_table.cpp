#include "program/rope_table.h"

#include <algorithm>
#include <cmath>

namespace pyrite {

RopeTable::RopeTable(std::vector<double> frequencies, double factor, bool pairs, double growth,
                     int growth_span)
    : frequencies_(std::move(frequencies)),
      factor_(factor),
      pairs_(pairs),
      growth_(growth),
      growth_span_(growth_span) {}

void RopeTable::grow(int count) {
  const size_t width = 2 * frequencies_.size();
  const size_t known = width == 0 ? 0 : table_.size() / width;
  if (size_t(count) <= known) return;
  // By a quarter at least, so that decoding does not copy the table at every token.
  const size_t wanted = std::max(size_t(count), known + known / 4 + 64);
  table_.resize(wanted * width);
  for (size_t position = known; position < wanted; ++position) {
    float* row = table_.data() + position * width;
    const double spans = double(position / size_t(growth_span_));
    const double factor = factor_ * (1 + growth_ * std::log1p(spans));
    for (size_t i = 0; i < frequencies_.size(); ++i) {
      const double angle = double(position) * frequencies_[i];
      row[i] = float(factor * std::cos(angle));
      row[i + frequencies_.size()] = float(factor * std::sin(angle));
    }
  }
}

}  // namespace pyrite
