// What adapters add to projections and to an embedding table, with the matrices that its indices name.

#include <algorithm>

#include "bind_executor.h"

namespace pyrite {

AdaptOp Executor::adapt_of(Rows rows, Columns base, Columns out, const PairsOf& adapters) {
  require(base.second == out.second, "what is adapted keeps its width");
  AdaptOp op{rows, {}, slice(base), slice(out)};
  const KernelTable& kernels = program_.kernels();
  for (const auto& of : adapters) {
    AdapterPair& pair = op.adapters.emplace_back();
    if (!of) continue;
    pair = {matrix_of(of->first), matrix_of(of->second)};
    require(pair.up->rows == out.second, "an adapter's matrices differ in size");
    op.most_rank = std::max(op.most_rank, pair.up->columns);
    op.forms |= kernels.activation_forms(pair.down->type, 2);
    op.forms |= kernels.activation_forms(pair.up->type, 2);
  }
  require(op.most_rank > 0, "what is adapted has an adapter");
  op.inner_row_bytes = kernels.activation_bytes(op.most_rank, 2, op.forms);
  op.is_result = out.first < 0;
  num_adapters_ = std::max(num_adapters_, int(adapters.size()));
  return op;
}

void Executor::add_adapt(const std::string& label, Rows rows, Columns in, Columns base, Columns out,
                         const PairsOf& adapters) {
  AdaptOp op = adapt_of(rows, base, out, adapters);
  op.in = slice(in);
  op.row_bytes = program_.kernels().activation_bytes(in.second, 2, op.forms);
  for (const AdapterPair& pair : op.adapters) {
    if (pair.down == nullptr) continue;
    require(pair.down->columns == in.second && pair.down->rows == pair.up->columns,
            "an adapter's matrices differ in size");
  }
  program_.add(std::move(op), label);
}

void Executor::add_adapt_embed(const std::string& label, Columns base, Columns out, float scale,
                               const PairsOf& adapters) {
  AdaptOp op = adapt_of(Rows::kTokens, base, out, adapters);
  op.scale = scale;
  for (const AdapterPair& pair : op.adapters) {
    if (pair.down == nullptr) continue;
    require(pair.down->columns == pair.up->columns, "an adapter's matrices differ in size");
    num_embeddings_ = std::min(num_embeddings_, pair.down->rows);
  }
  program_.add(std::move(op), label);
}

void Executor::check_adapters(const Batch& batch, size_t count) const {
  require(count == size_t(batch.num_sequences), "a sequence has no number of an adapter");
  for (int i = 0; i < batch.num_sequences; ++i) {
    require(batch.adapters[i] >= -1 && batch.adapters[i] < num_adapters_,
            "no such adapter");
  }
}

}  // namespace pyrite
