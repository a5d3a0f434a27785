#include "verbs/eval/dreams.h"

#include <cmath>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace maglev::verbs::eval {
namespace {

/// Keeps what it is given.
class Frames : public Animation {
 public:
  Frames() : Animation("") {}
  std::vector<Canvas> kept;

 protected:
  void encode(const Canvas& frame, const Patch&, FrameTime) override { kept.push_back(frame); }
  void write(int, int, int) override {}
};

int64_t pixels_of(const Canvas& canvas, Rgb colour) {
  int64_t count = 0;
  for (const Rgb& pixel : canvas.pixels()) count += pixel == colour;
  return count;
}

/// 12 steps of 2 rows: pictures that are all of one colour, and two numbers; 3 steps were seen.
Dreamed made_up() {
  const int64_t T = 12, N = 2;
  Dreamed d;
  d.columns = {{.name = "image", .dtype = DType::u8, .shape = {32, 16, 3}},
               {.name = "vector", .shape = {2}},
               {.name = "state", .shape = {3}, .audience = Audience::critic}};
  d.truth = {at::full({T, N, 32, 16, 3}, 200, at::kByte), at::zeros({T, N, 2}),
             at::zeros({T, N, 3})};
  d.model = {at::full({T, N, 32, 16, 3}, 200.f), at::zeros({T, N, 2}), {}};
  d.is_first = at::zeros({T, N}, at::kByte);
  d.is_first[0].fill_(1);
  d.seen = 3;
  return d;
}

TEST(Dreams, are_off_by_the_root_of_mean_squares_where_they_saw_and_where_not) {
  Dreamed d = made_up();
  d.model[1].narrow(0, 0, 3).fill_(2);
  d.model[1].narrow(0, 3, 9).fill_(-3);
  // a later episode's first step is seen
  d.is_first[7][1] = 1;
  d.model[1][7][1].fill_(2);
  const auto errors = errors_of(d);
  ASSERT_EQ(errors.size(), 2u) << "a column that the model does not see is left out";
  EXPECT_EQ(errors[0].column, "image");
  EXPECT_EQ(errors[0].seen, 0);
  EXPECT_NEAR(errors[1].seen, 2, 1e-9);
  EXPECT_NEAR(errors[1].imagined, 3, 1e-9);
  EXPECT_EQ(errors[0].most, 255) << "bytes";
  EXPECT_EQ(errors[1].most, 0) << "nobody knows";
  d.seen = 12;
  EXPECT_TRUE(std::isnan(errors_of(d)[1].imagined));
}

TEST(Dreams, are_measured_beside_what_was_seen_last_held_still) {
  Dreamed d = made_up();
  // a number that grows by 1 a step: 9 steps imagined behind the third
  d.truth[1].copy_(at::arange(12).view({12, 1, 1}).expand({12, 2, 2}));
  double squares = 0;
  for (int behind = 1; behind <= 9; ++behind) squares += behind * behind;
  EXPECT_NEAR(errors_of(d)[1].still, std::sqrt(squares / 9), 1e-6);
  EXPECT_EQ(errors_of(d)[0].still, 0) << "nothing moves";
  // a later episode's first step is seen, and what follows is held from there
  d.is_first[3].fill_(1);
  squares -= 9 * 9;
  EXPECT_NEAR(errors_of(d)[1].still, std::sqrt(squares / 8), 1e-6);
}

TEST(Dreams, are_drawn_below_the_truth_with_what_differs) {
  Dreamed d = made_up();
  d.model[0].select(-1, 0).fill_(100);  // less red than there was
  Frames strip;
  draw_strip(d, strip);
  ASSERT_EQ(strip.kept.size(), 1u);
  // 12 steps, pictures of 32 x 16 drawn twice as large
  const int64_t picture = 64 * 32;
  EXPECT_EQ(pixels_of(strip.kept[0], {200, 200, 200}), 12 * picture);
  EXPECT_EQ(pixels_of(strip.kept[0], {100, 200, 200}), 12 * picture);
  EXPECT_EQ(pixels_of(strip.kept[0], {78, 128, 128}), 12 * picture);
}

TEST(Dreams, move_a_frame_a_step_with_rows_side_by_side) {
  const Dreamed d = made_up();
  Frames moving;
  draw_moving(d, moving);
  ASSERT_EQ(moving.kept.size(), 12u);
  for (const Canvas& frame : moving.kept) {
    EXPECT_EQ(frame.width(), moving.kept[0].width());
    EXPECT_EQ(frame.height(), moving.kept[0].height());
    // truth and model of two rows
    EXPECT_EQ(pixels_of(frame, {200, 200, 200}), 4 * 64 * 32);
  }
  // the edges say which steps were seen
  constexpr Rgb seen{76, 175, 120}, imagined{240, 150, 60};
  EXPECT_GT(pixels_of(moving.kept[2], seen), 0);
  EXPECT_EQ(pixels_of(moving.kept[2], imagined), 0);
  EXPECT_GT(pixels_of(moving.kept[3], imagined), 0);
}

TEST(Dreams, show_the_last_colours_of_stacked_pictures_and_one_channel_as_grey) {
  Dreamed d = made_up();
  d.columns.resize(1), d.model.resize(1), d.truth.resize(1);
  d.columns[0].shape = {32, 16, 6};
  d.truth[0] = at::zeros({12, 2, 32, 16, 6}, at::kByte);
  d.truth[0].narrow(-1, 3, 3).fill_(90);
  d.model[0] = d.truth[0].to(at::kFloat);
  Frames stacked, grey;
  draw_strip(d, stacked);
  EXPECT_EQ(pixels_of(stacked.kept[0], {90, 90, 90}), 2 * 12 * 64 * 32);
  d.truth[0] = at::full({12, 2, 32, 16, 1}, 90, at::kByte);
  d.model[0] = d.truth[0].to(at::kFloat);
  draw_strip(d, grey);
  EXPECT_EQ(pixels_of(grey.kept[0], {90, 90, 90}), 2 * 12 * 64 * 32);
}

}  // namespace
}  // namespace maglev::verbs::eval
