// What adapters add to a projection, with the matrices that its indices name.

#include <algorithm>

#include "bind_executor.h"

namespace pyrite {

void Executor::add_adapt(const std::string& label, Rows rows, Columns in, Columns base, Columns out,
                         const std::vector<std::optional<std::pair<int, int>>>& adapters) {
  require(base.second == out.second, "an adapted projection keeps its width");
  AdaptOp op{rows, slice(in), slice(base), slice(out)};
  const KernelTable& kernels = program_.kernels();
  for (const auto& of : adapters) {
    AdapterPair& pair = op.adapters.emplace_back();
    if (!of) continue;
    pair = {matrix_of(of->first), matrix_of(of->second)};
    require(pair.down->columns == in.second && pair.up->rows == out.second &&
                pair.up->columns == pair.down->rows,
            "an adapter's matrices differ in size");
    op.most_rank = std::max(op.most_rank, pair.down->rows);
    op.forms |= kernels.activation_forms(pair.down->type, 2);
    op.forms |= kernels.activation_forms(pair.up->type, 2);
  }
  require(op.most_rank > 0, "an adapted projection has an adapter");
  op.row_bytes = kernels.activation_bytes(in.second, 2, op.forms);
  op.inner_row_bytes = kernels.activation_bytes(op.most_rank, 2, op.forms);
  num_adapters_ = std::max(num_adapters_, int(adapters.size()));
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
