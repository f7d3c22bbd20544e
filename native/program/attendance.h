#pragma once
// How many members of a team work: fewer while other processes hold cores. A step in which members
// stood idle, past their spins, for much of its time was held up by a thread that the system did not
// let run; fewer threads, which do run, are done sooner. Now and then one more is tried again. It is
// told all times, and reads no clock.

#include <cstdint>

namespace pyrite {

class Attendance {
 public:
  explicit Attendance(int size) : size_(size), count_(size) {}

  int count() const { return count_; }
  // After a step that took `spent` and ended at `now`, with `stalled` summed over the members: all
  // nanoseconds.
  void record(int64_t now, int64_t spent, int64_t stalled);

 private:
  void send_away(int64_t now);

  int size_;
  int count_;
  int held_up_ = 0;          // steps in a row
  int64_t held_time_ = 0;    // that these took
  int64_t rest_ = 0;         // between two tries
  int64_t changed_at_ = 0;
  bool trying_ = false;      // the last change was to one more
};

}  // namespace pyrite
