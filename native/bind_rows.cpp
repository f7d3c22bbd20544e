// Operations of an executor that work on single rows, each with the values, weights and norms that its
// indices name.

#include <algorithm>

#include "bind_executor.h"

namespace pyrite {

Norm Executor::norm_of(NormOf norm, int width) const {
  if (!norm) return {};
  const auto& [kind, weight, bias, eps] = *norm;
  require(kind != NormKind::kNone, "a norm has a kind");
  return {kind, eps, optional_vector_of(weight, width), optional_vector_of(bias, width)};
}

const float* Executor::optional_vector_of(int index, int width) const {
  return index < 0 ? nullptr : vector_of(index, width);
}

const PackedMatrix* Executor::table_of(int table, Columns out) const {
  const PackedMatrix* matrix = matrix_of(table);
  require(matrix->columns == out.second, "an embedding's width differs from its value's");
  return matrix;
}

void Executor::add_embed(const std::string& label, int table, float scale, Columns out) {
  const PackedMatrix* matrix = table_of(table, out);
  num_embeddings_ = std::min(num_embeddings_, matrix->rows);
  program_.add(EmbedOp{matrix, scale, slice(out)}, label);
}

void Executor::add_embed_positions(const std::string& label, int table, Columns out) {
  const PackedMatrix* matrix = table_of(table, out);
  num_positions_ = std::min(num_positions_, matrix->rows);
  program_.add(EmbedOp{matrix, 1.0f, slice(out), true}, label);
}

void Executor::add_norm(const std::string& label, Rows rows, Columns in, Columns out, NormOf norm,
                        int group, bool is_wide, std::optional<Columns> residual) {
  require(group > 0 && in.second % group == 0 && in.second == out.second, "a norm's widths differ");
  require(norm.has_value(), "a norm has a kind");
  require(!residual || residual->second == out.second, "a residual's width differs");
  program_.add(NormOp{rows, slice(in), slice(out), norm_of(norm, is_wide ? in.second : group), group,
                      is_wide, residual ? slice(*residual) : Slice()},
               label);
}

void Executor::add_rotate(const std::string& label, Rows rows, Columns in, Columns out, int head_width,
                          int start, int rope) {
  require(head_width > 0 && in.second % head_width == 0 && in.second == out.second,
          "a rotation's widths differ");
  require(start >= 0 && start < head_width, "a rotation starts outside of its head");
  program_.add(
      RotateOp{rows, slice(in), slice(out), head_width, start, rope_of(rope, head_width - start)},
      label);
}

void Executor::add_concat(const std::string& label, Rows rows, Columns left, Columns right,
                          Columns out) {
  require(left.second + right.second == out.second, "a concatenation's widths differ");
  program_.add(ConcatOp{rows, slice(left), slice(right), slice(out)}, label);
}

void Executor::add_pick(const std::string& label, Rows rows, Columns in, Columns out, int order) {
  const float* columns = vector_of(order, out.second);
  for (int i = 0; i < out.second; ++i) {
    const bool is_column = columns[i] >= 0 && columns[i] < float(in.second);
    require(is_column && columns[i] == float(int32_t(columns[i])), "an order names no column");
  }
  program_.add(PickOp{rows, slice(in), slice(out), {columns, columns + out.second}}, label);
}

void Executor::add_head_dot(const std::string& label, Rows rows, Columns left, Columns right,
                            Columns value, Columns out, int weight, int head_width) {
  require(left.second == out.second && right.second == out.second && value.second == out.second,
          "the widths of a sum over heads differ");
  require(head_width > 0 && out.second % head_width == 0, "a row holds no whole number of heads");
  program_.add(HeadDotOp{rows, slice(left), slice(right), slice(value), slice(out),
                         vector_of(weight, out.second), head_width},
               label);
}

void Executor::add_select(const std::string& label, Columns in, Columns out) {
  require(in.second == out.second, "a selection's widths differ");
  program_.add(SelectOp{slice(in), slice(out)}, label);
}

void Executor::add_element(const std::string& label, Rows rows, Columns out, Formula formula) {
  program_.add(ElementOp{rows, slice(out), std::move(formula), out.first < 0}, label);
}

void Executor::add_gate(const std::string& label, Rows rows, Columns gate, Columns up, Columns out,
                        Activation activation) {
  require(gate.second == out.second && up.second == out.second, "a gate's widths differ");
  require(activation != Activation::kNone, "a gate needs an activation");
  add_element(label, rows, out, Gated{slice(gate), slice(up), activation});
}

void Executor::add_add(const std::string& label, Rows rows, Columns left, Columns right,
                       Columns out) {
  require(left.second == out.second && right.second == out.second, "a sum's widths differ");
  add_element(label, rows, out, Sum{slice(left), slice(right)});
}

void Executor::add_activate(const std::string& label, Rows rows, Columns in, Columns out,
                            Activation activation) {
  require(in.second == out.second, "an activation's widths differ");
  require_one_sided(activation);
  add_element(label, rows, out, Activated{slice(in), activation});
}

void Executor::add_scale(const std::string& label, Rows rows, Columns in, Columns out,
                         float factor) {
  require(in.second == out.second, "a factor's widths differ");
  add_element(label, rows, out, Scaled{slice(in), factor});
}

void Executor::add_affine(const std::string& label, Rows rows, Columns in, Columns out, int weight,
                          int bias) {
  require(in.second == out.second, "the widths of weights by columns differ");
  add_element(label, rows, out,
              Affine{slice(in), optional_vector_of(weight, out.second),
                     optional_vector_of(bias, out.second)});
}

void Executor::add_scale_rows(const std::string& label, Rows rows, Columns in, Columns factor,
                              Columns out, Activation activation) {
  require(in.second == out.second && factor.second == 1, "a row's factor is one column");
  require_one_sided(activation);
  add_element(label, rows, out, ScaledRows{slice(in), slice(factor), activation});
}

void Executor::add_lerp(const std::string& label, Rows rows, Columns left, Columns right,
                        Columns out, int weight) {
  require(left.second == out.second && right.second == out.second, "a mixture's widths differ");
  add_element(label, rows, out,
              Blended{slice(left), slice(right), Slice(), vector_of(weight, out.second)});
}

void Executor::add_blend(const std::string& label, Rows rows, Columns left, Columns right,
                         Columns share, Columns out) {
  require(left.second == out.second && right.second == out.second && share.second == out.second,
          "a mixture's widths differ");
  add_element(label, rows, out, Blended{slice(left), slice(right), slice(share), nullptr});
}

void Executor::add_softcap(const std::string& label, Rows rows, Columns in, Columns out,
                           float cap) {
  require(in.second == out.second && cap > 0, "a cap's widths differ, or it is not positive");
  add_element(label, rows, out, Capped{slice(in), cap});
}

}  // namespace pyrite
