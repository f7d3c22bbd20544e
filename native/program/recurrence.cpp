#include "program/recurrence.h"

#include <algorithm>
#include <cstring>

namespace pyrite {

namespace {

constexpr float kNothingYet = -1e38f;  // the exponent of an empty Wkv4 state
constexpr int kShiftColumns = 1024;    // of a chunk
constexpr int kConvColumns = 256;
constexpr int kWkv4Columns = 64;
constexpr int kScanColumns = 64;  // of heads that are one column each
constexpr int kRun = 16;

int divide_up(int value, int by) { return (value + by - 1) / by; }

// The part of a chunk: one sequence, and the `unit`th of what its columns are cut into.
struct Part {
  int sequence, unit;
  int first_row, num_rows;
  bool is_fresh;  // its first token is here
};

int count_parts(const Step& step, int units) { return step.batch.num_sequences * units; }

// Calls run(part), unless the sequence has no rows.
template <class Run>
void with_part(const Step& step, int units, int chunk, Run run) {
  const int sequence = chunk / units;
  const int first = step.batch.sequence_starts[sequence];
  const int num_rows = step.batch.sequence_starts[sequence + 1] - first;
  if (num_rows == 0) return;
  run(Part{sequence, chunk % units, first, num_rows, step.batch.positions[first] == 0});
}

// Rows of a part, from column `column` on.
Strip strip(const Slice& slice, const Part& part, int column) {
  return {slice.row(part.first_row) + column, slice.stride};
}

OutStrip out_strip(const Slice& slice, const Part& part, int column) {
  return {slice.row(part.first_row) + column, slice.stride};
}

const float* from(const float* vector, int column) {
  return vector == nullptr ? nullptr : vector + column;
}

// Columns [column, column + width) of the rows of a state, as `value` where the sequence begins.
void begin(const Part& part, const OutStrip& state, int first_row, int end_row, int width,
           float value) {
  if (!part.is_fresh) return;
  for (int row = first_row; row < end_row; ++row) std::fill_n(state.row(row), width, value);
}

void begin(const Part& part, float* state, size_t size) {
  if (part.is_fresh) std::fill_n(state, size, 0.0f);
}

// What is the same for the columns of a head and for runs of columns.
ScanWork scan_work(const ScanOp& op, const Step& step, const Part& part, int column, int width) {
  const int group_columns = op.x.width / op.shape.groups;
  const int first_state = column / group_columns * op.shape.state_width;
  const int head = column / op.shape.head_width;
  ScanWork work = {};
  work.num_rows = part.num_rows;
  work.width = width;
  work.state_width = op.shape.state_width;
  work.x = strip(op.x, part, column);
  work.step = strip(op.step, part, head);
  work.b = strip(op.b, part, first_state);
  work.c = strip(op.c, part, first_state);
  work.a = op.a + (op.shape.is_by_state ? size_t(column) * op.shape.state_width : size_t(head));
  work.d = op.d + head;
  work.step_bias = from(op.step_bias, head);
  work.step_low = op.step_low;
  work.step_high = op.step_high;
  work.state = step.state(part.sequence, op.state) + size_t(column) * op.shape.state_width;
  work.out = out_strip(op.out, part, column);
  begin(part, work.state, size_t(width) * op.shape.state_width);
  return work;
}

// Runs of 16 columns begin anew in each group.
void scan_runs(const ScanOp& op, const Step& step, const Part& part) {
  const int group_columns = op.x.width / op.shape.groups;
  const int units = divide_up(group_columns, kScanColumns);
  const int group = part.unit / units * group_columns;
  const int first = part.unit % units * kScanColumns;
  const int end = std::min(group_columns, first + kScanColumns);
  for (int column = first; column < end; column += kRun) {
    step.kernels.recurrence.scan_by_state(
        scan_work(op, step, part, group + column, std::min(kRun, end - column)));
  }
}

int units_of(const ScanOp& op) {
  if (!op.shape.is_by_state) return op.shape.heads;
  return op.shape.groups * divide_up(op.x.width / op.shape.groups, kScanColumns);
}

}  // namespace

int count_chunks(const ShiftOp& op, const Step& step) {
  return count_parts(step, divide_up(op.in.width, kShiftColumns));
}

void run_chunk(const ShiftOp& op, const Step& step, Member&, int chunk) {
  with_part(step, divide_up(op.in.width, kShiftColumns), chunk, [&](const Part& part) {
    const int column = part.unit * kShiftColumns;
    const size_t bytes = sizeof(float) * size_t(std::min(kShiftColumns, op.in.width - column));
    float* state = step.state(part.sequence, op.state) + column;
    begin(part, state, bytes / sizeof(float));
    const float* before = state;
    for (int row = part.first_row; row < part.first_row + part.num_rows; ++row) {
      std::memcpy(op.out.row(row) + column, before, bytes);
      before = op.in.row(row) + column;
    }
    std::memcpy(state, before, bytes);
  });
}

int count_chunks(const ConvOp& op, const Step& step) {
  return count_parts(step, divide_up(op.in.width, kConvColumns));
}

void run_chunk(const ConvOp& op, const Step& step, Member&, int chunk) {
  with_part(step, divide_up(op.in.width, kConvColumns), chunk, [&](const Part& part) {
    const int column = part.unit * kConvColumns;
    const size_t width = size_t(op.in.width);
    ConvWork work = {};
    work.num_rows = part.num_rows;
    work.width = std::min(kConvColumns, op.in.width - column);
    work.num_taps = op.num_taps;
    work.in = strip(op.in, part, column);
    work.taps = {op.taps + column, width};
    work.bias = from(op.bias, column);
    work.activation = op.activation;
    work.state = {step.state(part.sequence, op.state) + column, width};
    work.out = out_strip(op.out, part, column);
    begin(part, work.state, 0, op.num_taps - 1, work.width, 0.0f);
    step.kernels.recurrence.convolve(work);
  });
}

int count_chunks(const ScanOp& op, const Step& step) { return count_parts(step, units_of(op)); }

void run_chunk(const ScanOp& op, const Step& step, Member&, int chunk) {
  with_part(step, units_of(op), chunk, [&](const Part& part) {
    if (op.shape.is_by_state) {
      scan_runs(op, step, part);
      return;
    }
    const int width = op.shape.head_width;
    step.kernels.recurrence.scan_by_head(scan_work(op, step, part, part.unit * width, width));
  });
}

int count_chunks(const Wkv4Op& op, const Step& step) {
  return count_parts(step, divide_up(op.key.width, kWkv4Columns));
}

void run_chunk(const Wkv4Op& op, const Step& step, Member&, int chunk) {
  with_part(step, divide_up(op.key.width, kWkv4Columns), chunk, [&](const Part& part) {
    const int column = part.unit * kWkv4Columns;
    Wkv4Work work = {};
    work.num_rows = part.num_rows;
    work.width = std::min(kWkv4Columns, op.key.width - column);
    work.key = strip(op.key, part, column);
    work.value = strip(op.value, part, column);
    work.decay = op.decay + column;
    work.first = op.first + column;
    work.state = {step.state(part.sequence, op.state) + column, size_t(op.key.width)};
    work.out = out_strip(op.out, part, column);
    begin(part, work.state, 0, 2, work.width, 0.0f);
    begin(part, work.state, 2, 3, work.width, kNothingYet);
    step.kernels.recurrence.wkv4(work);
  });
}

int count_chunks(const Wkv7Op& op, const Step& step) {
  return count_parts(step, op.key.width / op.head_width);
}

void run_chunk(const Wkv7Op& op, const Step& step, Member&, int chunk) {
  with_part(step, op.key.width / op.head_width, chunk, [&](const Part& part) {
    const int column = part.unit * op.head_width;
    Wkv7Work work = {};
    work.num_rows = part.num_rows;
    work.head_width = op.head_width;
    work.receptance = strip(op.receptance, part, column);
    work.decay = strip(op.decay, part, column);
    work.key = strip(op.key, part, column);
    work.value = strip(op.value, part, column);
    work.removal = strip(op.removal, part, column);
    work.rate = strip(op.rate, part, column);
    work.state = step.state(part.sequence, op.state) + size_t(column) * op.head_width;
    work.out = out_strip(op.out, part, column);
    begin(part, work.state, size_t(op.head_width) * op.head_width);
    step.kernels.recurrence.wkv7(work);
  });
}

int count_chunks(const DeltaOp& op, const Step& step) { return count_parts(step, op.heads); }

void run_chunk(const DeltaOp& op, const Step& step, Member&, int chunk) {
  with_part(step, op.heads, chunk, [&](const Part& part) {
    const int head = part.unit;
    const int served = op.heads / op.key_heads;
    const int key_head = op.is_tiled ? head % op.key_heads : head / served;
    const int key_column = key_head * op.key_width, column = head * op.value_width;
    const size_t size = size_t(op.value_width) * size_t(op.key_width);
    DeltaWork work = {};
    work.num_rows = part.num_rows;
    work.key_width = op.key_width;
    work.value_width = op.value_width;
    work.query = strip(op.query, part, key_column);
    work.key = strip(op.key, part, key_column);
    work.value = strip(op.value, part, column);
    work.step = strip(op.step, part, head);
    work.rate = strip(op.rate, part, head);
    work.a = op.a[head];
    work.step_bias = op.step_bias[head];
    work.state = step.state(part.sequence, op.state) + size_t(head) * size;
    work.out = out_strip(op.out, part, column);
    begin(part, work.state, size);
    step.kernels.recurrence.delta(work);
  });
}

}  // namespace pyrite
