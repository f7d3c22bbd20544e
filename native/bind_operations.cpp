// Products and attention of an executor, each with the values, weights and norms that its indices
// name.

#include <algorithm>

#include "bind_executor.h"

namespace pyrite {

const PackedMatrix* Executor::matrix_of(int index) const {
  require(index >= 0 && size_t(index) < matrices_.size(), "no such matrix");
  require(stack_sizes_[size_t(index)] == 1, "a stack stands where a matrix is meant");
  return matrices_[size_t(index)];
}

const float* Executor::vector_of(int index, int width) const {
  require(index >= 0 && size_t(index) < vectors_.size(), "no such vector");
  require(int(vectors_[size_t(index)].size()) == width, "a vector's width differs");
  return vectors_[size_t(index)].data();
}

const RopeTable* Executor::rope_of(int index, int head_width) const {
  require(index >= 0 && size_t(index) < ropes_.size(), "no such rope");
  require(2 * ropes_[size_t(index)]->half() <= head_width, "a rope is wider than its head");
  return ropes_[size_t(index)];
}

Slice Executor::slice(Columns columns) const {
  const Sizes& sizes = program_.sizes();
  require(columns.second > 0, "a value is empty");
  const bool inside = columns.first < 0
                          ? columns.second == sizes.result_width
                          : columns.second <= sizes.arena_columns - columns.first;
  require(inside, "a value lies outside of the arena");
  return program_.slice(columns.first, columns.second);
}

Segment Executor::segment_of(std::pair<int, int> weight, int columns, int first_output) const {
  const PackedMatrix* matrix = matrix_of(weight.first);
  require(matrix->columns == columns, "a weight's columns differ from its input's");
  Segment segment;
  segment.matrix = matrix;
  segment.bias = weight.second < 0 ? nullptr : vector_of(weight.second, matrix->rows);
  segment.first_output = first_output;
  return segment;
}

int Executor::segments_of(const std::vector<std::pair<int, int>>& weights, Activation activation,
                          int columns, std::vector<Segment>& segments) const {
  require(!weights.empty(), "a product needs a weight");
  if (activation != Activation::kNone) {
    require(weights.size() == 2, "a gated product has two weights");
    Segment gate = segment_of(weights[0], columns, 0);
    const Segment up = segment_of(weights[1], columns, 0);
    require(gate.matrix->rows == up.matrix->rows, "gate and up differ in size");
    gate.pair = up.matrix;
    gate.pair_bias = up.bias;
    segments.push_back(gate);
    return gate.matrix->rows;
  }
  int outputs = 0;
  for (const auto& weight : weights) {
    segments.push_back(segment_of(weight, columns, outputs));
    outputs += segments.back().matrix->rows;
  }
  return outputs;
}

void Executor::choose_forms(LinearOp& op) const {
  const KernelTable& kernels = program_.kernels();
  Preparation& preparation = op.preparation;
  for (const Segment& segment : op.segments) {
    preparation.forms |= kernels.activation_forms(segment.matrix->type, preparation.planes);
    if (segment.pair == nullptr) continue;
    preparation.forms |= kernels.activation_forms(segment.pair->type, preparation.planes);
  }
  preparation.row_bytes = kernels.activation_bytes(preparation.in.width, preparation.planes,
                                                   preparation.forms);
}

void Executor::add_linear(const std::string& label, Rows rows, Columns in, Columns out,
                          const std::vector<std::pair<int, int>>& weights, NormOf norm,
                          Activation activation, std::optional<Columns> residual, float softcap,
                          int planes) {
  LinearOp op;
  op.preparation = {rows, slice(in), norm_of(norm, in.second), planes};
  op.out = slice(out);
  op.activation = activation;
  op.residual = residual ? slice(*residual) : Slice();
  op.softcap = softcap;
  op.is_result = out.first < 0;
  require(planes == 1 || planes == 2, "planes is 1 or 2");
  require(!residual || residual->second == out.second, "a residual's width differs");
  require(segments_of(weights, activation, in.second, op.segments) == out.second,
          "a product's width differs from its value's");
  choose_forms(op);
  program_.add(PrepareOp{op.preparation}, label + " prepare");
  program_.add(std::move(op), label);
}

void Executor::add_attention(const std::string& label, Rows rows, Columns query, std::optional<Columns> key,
                             std::optional<Columns> value, Columns out, int key_heads,
                             int key_width, int value_width, size_t layer_offset, float scale,
                             int window, float softcap, std::optional<int> sinks,
                             NormOf query_norm, NormOf key_norm, std::optional<int> rope,
                             KvType kv_type) {
  require(key || !value, "values are stored with keys");
  require(!key || rows == Rows::kTokens, "keys are stored for every token");
  const HeadShape shape = shape_of(key_width, value_width, key && !value);
  require(key_width % 8 == 0 && value_width % 8 == 0, "heads are of multiples of 8 columns");
  require(key_heads > 0 && key_heads <= query.second / key_width, "key_heads is out of range");
  const int keys = key_width * key_heads;
  require((!key || key->second == keys) && (!value || value->second == value_width * key_heads) &&
              query.second % keys == 0 && out.second == query.second / key_width * value_width,
          "attention's widths differ");
  const size_t layer_bytes = size_t(key_heads) * head_block_bytes(shape, kv_type);
  require(layer_offset % 64 == 0 && layer_offset + layer_bytes <= program_.sizes().page_bytes,
          "a layer lies outside of its page");
  require(window >= 0, "a window is 0 or more");
  AttentionOp op{slice(query), key ? slice(*key) : Slice(), value ? slice(*value) : Slice(), slice(out)};
  op.rows = rows;
  op.heads = query.second / key_width;
  op.key_heads = key_heads;
  op.shape = shape;
  op.layer_offset = layer_offset;
  op.scale = scale;
  op.window = window;
  op.softcap = softcap;
  op.sinks = sinks ? vector_of(*sinks, op.heads) : nullptr;
  op.query_norm = norm_of(query_norm, key_width);
  op.key_norm = norm_of(key_norm, key_width);
  op.kv_type = kv_type;
  op.rope = rope ? rope_of(*rope, key_width) : nullptr;
  window_ = std::max(window_, window == 0 ? kWholeContext : window);
  if (key) program_.add(StoreOp{op}, label + " store");
  program_.add(AttendOp{op}, label);
  program_.add(JoinOp{op}, label + " join");
}

}  // namespace pyrite
