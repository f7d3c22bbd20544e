// Operations of an executor that keep a state in its slots.

#include <algorithm>

#include "bind_executor.h"

namespace pyrite {

namespace {

void require_same(std::initializer_list<Columns> all, const char* what) {
  for (const Columns& columns : all) require(columns.second == all.begin()->second, what);
}

}  // namespace

size_t Executor::state_of(size_t offset, size_t floats) const {
  const size_t held = program_.sizes().state_floats;
  require(offset <= held && floats <= held - offset, "a state lies outside of its slot");
  return offset;
}

void Executor::add_shift(const std::string& label, Columns in, Columns out, size_t state) {
  require_same({in, out}, "a shift's widths differ");
  program_.add(ShiftOp{slice(in), slice(out), state_of(state, size_t(in.second))}, label);
}

void Executor::add_conv(const std::string& label, Columns in, Columns out, int taps, int bias,
                        int num_taps, Activation activation, size_t state) {
  require_same({in, out}, "a convolution's widths differ");
  require(num_taps >= 2 && num_taps <= kMostTaps, "a convolution has 2 to 16 taps");
  require_one_sided(activation);
  const size_t width = size_t(in.second);
  program_.add(ConvOp{slice(in), slice(out), vector_of(taps, in.second * num_taps),
                      optional_vector_of(bias, in.second), num_taps, activation,
                      state_of(state, width * size_t(num_taps - 1))},
               label);
}

void Executor::add_scan(const std::string& label, Columns x, Columns step, Columns b, Columns c,
                        Columns out, int a, int d, int step_bias, int head_width, int state_width,
                        int groups, bool is_by_state, float step_low, float step_high,
                        size_t state) {
  const int heads = step.second;
  require_same({x, out}, "a scan's widths differ");
  require(head_width >= 1 && heads % std::max(groups, 1) == 0 && groups >= 1 &&
              x.second % heads == 0 && x.second / heads == head_width,
          "a scan's heads differ from its columns");
  require(!is_by_state || head_width == 1, "a scan by state has heads of one column");
  require(state_width >= 1 && b.second % groups == 0 && b.second / groups == state_width &&
              c.second == b.second,
          "the columns of a scan's state differ");
  require(step_low <= step_high, "the limits of a scan's step are crossed");
  const size_t floats = size_t(x.second) * size_t(state_width);
  ScanOp op = {slice(x), slice(step), slice(b), slice(c), slice(out)};
  op.a = vector_of(a, is_by_state ? int(floats) : heads);
  op.d = vector_of(d, heads);
  op.step_bias = optional_vector_of(step_bias, heads);
  op.shape = {heads, head_width, state_width, groups, is_by_state};
  op.step_low = step_low;
  op.step_high = step_high;
  op.state = state_of(state, floats);
  program_.add(op, label);
}

void Executor::add_wkv4(const std::string& label, Columns key, Columns value, Columns out,
                        int decay, int first, size_t state) {
  require_same({key, value, out}, "the widths of a mean over time differ");
  program_.add(Wkv4Op{slice(key), slice(value), slice(out), vector_of(decay, key.second),
                      vector_of(first, key.second), state_of(state, 3 * size_t(key.second))},
               label);
}

void Executor::add_wkv7(const std::string& label, Columns receptance, Columns decay, Columns key,
                        Columns value, Columns removal, Columns rate, Columns out, int head_width,
                        size_t state) {
  require_same({receptance, decay, key, value, removal, rate, out},
               "the widths of a state's inputs differ");
  require(head_width >= 1 && head_width <= kMostHeadColumns && key.second % head_width == 0,
          "heads have 1 to 256 columns, and a row a whole number of them");
  Wkv7Op op = {slice(receptance), slice(decay), slice(key), slice(value), slice(removal),
               slice(rate), slice(out)};
  op.head_width = head_width;
  op.state = state_of(state, size_t(key.second) * size_t(head_width));
  program_.add(op, label);
}

void Executor::add_delta(const std::string& label, Columns query, Columns key, Columns value,
                         Columns step, Columns rate, Columns out, int a, int step_bias,
                         int key_heads, bool is_tiled, size_t state) {
  require_same({query, key}, "the widths of queries and keys differ");
  require_same({value, out}, "the widths of values and results differ");
  require_same({step, rate}, "steps and rates are of as many heads");
  const int heads = step.second;
  require(key_heads >= 1 && heads % key_heads == 0 && key.second % key_heads == 0 &&
              value.second % heads == 0,
          "a delta rule's heads differ from its columns");
  DeltaOp op = {slice(query), slice(key), slice(value), slice(step), slice(rate), slice(out)};
  op.a = vector_of(a, heads);
  op.step_bias = vector_of(step_bias, heads);
  op.heads = heads;
  op.key_heads = key_heads;
  op.key_width = key.second / key_heads;
  op.value_width = value.second / heads;
  op.is_tiled = is_tiled;
  require(op.key_width <= kMostHeadColumns && op.value_width <= kMostHeadColumns,
          "heads have 1 to 256 columns");
  op.state = state_of(state, size_t(value.second) * size_t(op.key_width));
  program_.add(op, label);
}

}  // namespace pyrite
