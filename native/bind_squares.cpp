// Sums of squares of what goes into the products of an executor.

#include "bind_executor.h"

namespace pyrite {

int Executor::keep_squares(Squares* squares) {
  squares_.push_back(squares);
  return int(squares_.size()) - 1;
}

int Executor::add_squares(const std::string& label, Rows rows, Columns in, NormOf norm, int heads,
                          int carried) {
  require(heads > 0 && in.second % heads == 0, "the columns are not those of so many heads");
  require(carried >= 0 && carried < in.second / heads, "no columns of a head are multiplied");
  Squares* squares = program_.add_squares(heads, in.second / heads - carried);
  const Preparation input = {rows, slice(in), norm_of(norm, in.second)};
  program_.add(SquaresOp{input, squares, heads, carried}, label);
  return keep_squares(squares);
}

std::pair<int, int> Executor::add_expert_squares(const std::string& label, Rows rows, Columns in,
                                                 int num_experts, int feed_forward) {
  require(num_experts > 0 && num_experts <= 1 << 16, "num_experts is out of range");
  require(feed_forward > 0 && feed_forward <= 1 << 24, "feed_forward is out of range");
  require(last_experts_ == std::pair(num_experts, feed_forward), "no such mixture is before it");
  Squares* outer = program_.add_squares(num_experts, in.second);
  Squares* inner = program_.add_squares(num_experts, feed_forward);
  program_.add(ExpertSquaresOp{rows, slice(in), feed_forward, outer, inner}, label);
  const int first = keep_squares(outer);
  return {first, keep_squares(inner)};
}

std::pair<std::vector<double>, std::vector<int64_t>> Executor::squares(int index) const {
  require(index >= 0 && size_t(index) < squares_.size(), "no such sums of squares");
  return {squares_[size_t(index)]->sums, squares_[size_t(index)]->counts};
}

}  // namespace pyrite
