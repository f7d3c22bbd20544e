// Operations of an executor that go by heads or by experts: each has a matrix of its own.

#include <algorithm>

#include "bind_executor.h"

namespace pyrite {

MatrixStack Executor::stack_of(int index, int count) const {
  require(index >= 0 && size_t(index) < matrices_.size(), "no such matrix");
  require(stack_sizes_[size_t(index)] == count, "a stack has another number of matrices");
  return {*matrices_[size_t(index)], count};
}

ExpertProduct Executor::product_of(WeightOf weight, int experts, int rows, int columns) const {
  ExpertProduct product = {stack_of(weight.first, experts)};
  const PackedMatrix& first = product.weight.first;
  require(first.rows == rows && first.columns == columns, "an expert's weights differ in size");
  require(int64_t(experts) * rows < int64_t(1) << 31, "a stack has too many rows");
  if (weight.second >= 0) product.bias = vector_of(weight.second, experts * rows);
  return product;
}

void Executor::adapt(ExpertsOp& op, ExpertProduct& product, const PairsOf& adapters) {
  const MatrixStack& weight = product.weight;
  require(weight || adapters.empty(), "an adapted product of experts has weights");
  for (const auto& of : adapters) {
    ExpertPair& pair = product.adapters.emplace_back();
    if (!of) continue;
    pair = {stack_of(of->first, weight.count), stack_of(of->second, weight.count)};
    const PackedMatrix &down = pair.down.first, &up = pair.up.first;
    require(down.columns == weight.first.columns && up.rows == weight.first.rows &&
                up.columns == down.rows,
            "an adapter's matrices differ in size");
    op.most_rank = std::max(op.most_rank, down.rows);
    op.rank_forms |= program_.kernels().activation_forms(up.type, op.planes);
  }
  num_adapters_ = std::max(num_adapters_, int(adapters.size()));
}

uint32_t Executor::forms_of(const ExpertProduct& product, int planes) const {
  const KernelTable& kernels = program_.kernels();
  if (!product.weight) return 0;
  uint32_t forms = kernels.activation_forms(product.weight.first.type, planes);
  for (const ExpertPair& pair : product.adapters) {
    if (pair.down) forms |= kernels.activation_forms(pair.down.first.type, planes);
  }
  return forms;
}

Routing Executor::routing_of(const RoutingOf& of, int experts) const {
  Routing routing = of.routing;
  routing.num_experts = experts;
  require(routing.num_used >= 1 && routing.num_used <= experts, "a row uses 1 to all experts");
  require(routing.groups >= 1 && experts % routing.groups == 0, "groups of experts are uneven");
  require(routing.used_groups >= 1 && routing.used_groups <= routing.groups,
          "a row uses 1 to all groups");
  require(int64_t(rows()) * routing.num_used < int64_t(1) << 31, "too many rows go to experts");
  if (of.bias) routing.bias = vector_of(*of.bias, experts);
  if (of.expert_scale) routing.expert_scale = vector_of(*of.expert_scale, experts);
  return routing;
}

void Executor::add_head_linear(const std::string& label, Rows rows, Columns in, Columns out,
                               int weight, int heads, int carried, int planes) {
  require(planes == 1 || planes == 2, "planes is 1 or 2");
  require(heads >= 1 && carried >= 0 && carried <= in.second, "heads are out of range");
  HeadLinearOp op{rows, slice(in), slice(out), stack_of(weight, heads), carried, planes};
  const PackedMatrix& matrix = op.weight.first;
  require(int64_t(heads) * (matrix.columns + carried) == in.second &&
              int64_t(heads) * (matrix.rows + carried) == out.second,
          "a head's width differs from its value's");
  const KernelTable& kernels = program_.kernels();
  op.forms = kernels.activation_forms(matrix.type, planes);
  op.row_bytes = kernels.activation_bytes(matrix.columns, planes, op.forms);
  program_.add(op, label);
}

void Executor::add_experts(const std::string& label, Rows rows, Columns in, Columns scores,
                           Columns out, const RoutingOf& routing, std::optional<WeightOf> gate,
                           WeightOf up, WeightOf down, Activation activation, int planes,
                           const PairsOf& gate_adapters, const PairsOf& up_adapters,
                           const PairsOf& down_adapters) {
  require(planes == 1 || planes == 2, "planes is 1 or 2");
  require(in.second == out.second, "experts keep a row's width");
  require(activation != Activation::kNone, "experts need an activation");
  require(gate || activation != Activation::kClampedSwiglu, "clamped_swiglu needs a gate");
  ExpertsOp op = {rows, slice(in), slice(scores), slice(out)};
  const int count = scores.second;
  op.routing = routing_of(routing, count);
  const int feed_forward = stack_of(up.first, count).first.rows;
  op.up = product_of(up, count, feed_forward, in.second);
  op.down = product_of(down, count, in.second, feed_forward);
  if (gate) op.gate = product_of(*gate, count, feed_forward, in.second);
  op.activation = activation;
  op.planes = planes;
  adapt(op, op.gate, gate_adapters);
  adapt(op, op.up, up_adapters);
  adapt(op, op.down, down_adapters);
  const KernelTable& kernels = program_.kernels();
  op.forms = forms_of(op.up, planes) | forms_of(op.gate, planes);
  op.inner_forms = forms_of(op.down, planes);
  op.row_bytes = kernels.activation_bytes(in.second, planes, op.forms);
  op.inner_row_bytes = kernels.activation_bytes(feed_forward, planes, op.inner_forms);
  if (op.most_rank > 0) {
    op.rank_row_bytes = kernels.activation_bytes(op.most_rank, planes, op.rank_forms);
  }
  last_experts_ = {count, feed_forward};
  program_.add(RouteOp{op}, label + " route");
  program_.add(GroupOp{op}, label + " group");
  if (op.most_rank > 0) program_.add(RankOp{op, true}, label + " adapt");
  program_.add(InnerOp{op}, label);
  program_.add(PrepareInnerOp{op}, label + " prepare");
  if (op.most_rank > 0) program_.add(RankOp{op, false}, label + " adapt down");
  program_.add(OuterOp{op}, label + " down");
  program_.add(SumOp{op}, label + " sum");
}

}  // namespace pyrite
