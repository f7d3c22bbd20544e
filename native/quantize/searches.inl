// Where the search of each type looks. `kPlaces`: levels that the value of largest magnitude is put at.
// `kClips`: levels that an end of the range lies outside of the codes; both ends go through them. With
// importance the best place is less known beforehand, and `kMore` is gone through as well. Found by
// trial on gaussian, heavy-tailed and real tensors, by error and time.

struct SearchQ4_0 {
  using Levels = Whole<-8, 7>;
  static constexpr int kBits = 4, kRefits = 1;
  static constexpr float kPlaces[] = {-8.0f, -7.4f};
  static constexpr float kMore[] = {-8.7f, 7.4f, -7.7f, -8.3f, -7.1f, 7.0f, 7.8f, -6.7f, 6.6f, -9.2f};
};
struct SearchQ5_0 {
  using Levels = Whole<-16, 15>;
  static constexpr int kBits = 5, kRefits = 1;
  static constexpr float kPlaces[] = {-16.0f, -15.3f, -16.6f};
  static constexpr float kMore[] = {-15.6f, -16.3f, -14.9f, 15.0f, 15.4f, 14.6f, -14.5f, -17.0f};
};
struct SearchIQ4NL {
  using Levels = Nonlinear;
  static constexpr int kBits = 4, kRefits = 1;
  static constexpr float kPlaces[] = {-127, -118, -108, -135, 113, 104, 122};
};
struct SearchQ4_1 {
  static constexpr int kBits = 4, kHigh = 15, kRefits = 1;
  static constexpr float kClips[] = {0.2f};
  static constexpr float kMore[] = {-0.3f, 0.1f, 0.5f, 0.9f, 1.4f};
};
struct SearchQ5_1 {
  static constexpr int kBits = 5, kHigh = 31, kRefits = 1;
  static constexpr float kClips[] = {0.2f};
  static constexpr float kMore[] = {-0.3f, 0.1f, 0.5f, 0.9f, 1.4f};
};
struct SearchQ2K {
  static constexpr int kHigh = 3, kMost = 15, kRefits = 2, kRounds = 4;
  static constexpr float kClips[] = {-0.4f, -0.1f, 0.2f, 0.5f};
};
struct SearchQ3K {
  using Levels = Whole<-4, 3>;
  static constexpr int kLow = -32, kHigh = 31, kRefits = 1, kRounds = 3;
  static constexpr float kPlaces[] = {-4.0f, -3.5f, -4.5f, 3.4f, -3.0f, 3.9f};
};
struct SearchQ4K {
  static constexpr int kHigh = 15, kMost = 63, kRefits = 2, kRounds = 4;
  static constexpr float kClips[] = {-0.3f, 0.2f, 0.6f, 1.1f};
};
struct SearchQ5K {
  static constexpr int kHigh = 31, kMost = 63, kRefits = 2, kRounds = 4;
  static constexpr float kClips[] = {-0.3f, 0.2f, 0.6f, 1.1f};
};
struct SearchQ6K {
  using Levels = Whole<-32, 31>;
  static constexpr int kLow = -128, kHigh = 127, kRefits = 1, kRounds = 3;
  static constexpr float kPlaces[] = {-32.0f, -31.4f, -32.5f, 31.3f, -30.8f, -33.0f};
};
struct SearchIQ4XS {
  using Levels = Nonlinear;
  static constexpr int kLow = -32, kHigh = 31, kRefits = 1, kRounds = 2;
  static constexpr float kPlaces[] = {-127, -118, -108, -135, 113, 104, 122};
};
