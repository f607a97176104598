#include "tools/measure/calibrate.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "egraph/stop.h"
#include "egraph/text/read_json.h"
#include "extract/price/calibrated.h"
#include "extract/price/measured_on.h"
#include "extract/price/op_times.h"
#include "extract/sizes/op_sizes.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/measure/operator_timer.h"

namespace saturate {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kFewestTimed = 3;
constexpr double kFirstPass = 0.6;     // of the time: the second tells which rows were disturbed
constexpr double kLeastOfARow = 0.01;  // seconds
constexpr int kDigitsOfSeconds = 4;

double rounded_seconds(double value) { return std::stod(fmt::format("{:.{}g}", value, kDigitsOfSeconds)); }

struct CalibrationCase {
  json line;
  std::vector<double> seconds = {};
};

class Calibrating {
 public:
  explicit Calibrating(const CalibrateOptions& options) : options_(options), timer_(options.runtime, options.threads) {}

  absl::StatusOr<Calibration> made() {
    begin_ = steady_seconds();
    std::istringstream lines{std::string(calibration_cases())};
    for (std::string line; cases_.size() < options_.rows && std::getline(lines, line);) cases_.push_back({*read_json(line)});
    if (absl::Status s = pass(kFirstPass * options_.seconds); !s.ok()) return s;
    std::erase_if(cases_, [](const CalibrationCase& c) { return c.seconds.empty(); });
    if (cases_.size() < kFewestTimed) return too_few();
    if (absl::Status s = pass(options_.seconds); !s.ok()) return s;
    return written();
  }

 private:
  double left(double until) const { return begin_ + until - steady_seconds(); }

  // Each case once. What time is left is shared by those that are left.
  absl::Status pass(double until) {
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      if (options_.stop && *options_.stop) return absl::CancelledError("interrupted");
      const double now = left(until);
      if (now <= 0) return absl::OkStatus();
      if (options_.progress) options_.progress(done_++, 2 * cases_.size());
      const auto op = timed_operator(cases_[i].line);
      if (!op.ok()) return op.status();
      const double share = now / static_cast<double>(cases_.size() - i);
      const auto took = timer_.seconds(*op, std::max(kLeastOfARow, share / 2));  // the other half is for loading
      if (took.ok()) {
        if (*took > kLeastSeconds) cases_[i].seconds.push_back(*took);  // else the short graph was disturbed all the time
        continue;
      }
      if (absl::IsCancelled(took.status()) || (options_.stop && *options_.stop)) return absl::CancelledError("interrupted");
      out_.failed.push_back(fmt::format("{}: {}", cases_[i].line["row"]["op"].get<std::string>(), std::string(took.status().message())));
    }
    return absl::OkStatus();
  }

  absl::Status too_few() const {
    if (out_.failed.empty())
      return absl::UnavailableError(
          fmt::format("{} rows in {:.3g} s are too few; give more by --seconds", cases_.size(), options_.seconds));
    return absl::UnavailableError(fmt::format("{} runs too few of the rows: {}", options_.runtime->name(), out_.failed[0]));
  }

  absl::StatusOr<Calibration> written() {
    const ordered_json head{{"machine", to_json(this_machine())},
                            {"runtime", "onnxruntime " + options_.runtime->version()},
                            {"threads", options_.threads},
                            {"date", today()},
                            {"fitted", options_.table}};
    out_.text = head.dump() + "\n";
    const auto table = load_op_times(options_.table);
    if (!table.ok()) return table.status();
    std::vector<double> ratios;
    for (const CalibrationCase& c : cases_) {
      ordered_json row;
      for (const char* key : {"op", "dtype", "in", "out", "const", "attrs"})
        if (c.line["row"].contains(key)) row[key] = c.line["row"][key];
      const double least = *std::min_element(c.seconds.begin(), c.seconds.end());
      row["seconds"] = rounded_seconds(least);
      if (c.seconds.size() > 1)
        row["noise"] = std::round(1000 * (*std::max_element(c.seconds.begin(), c.seconds.end()) / least - 1)) / 1000;
      out_.text += row.dump() + "\n";
      if (const auto use = use_of(c.line["row"])) ratios.push_back(least / (*table)->seconds(*use));
    }
    std::sort(ratios.begin(), ratios.end());
    out_.ratio = ratios.empty() ? 1 : ratios[ratios.size() / 2];
    out_.rows = cases_.size();
    if (const auto read = load_calibrated(out_.text, "what was measured"); !read.ok()) return read.status();
    out_.seconds = steady_seconds() - begin_;
    return std::move(out_);
  }

  const CalibrateOptions& options_;
  OperatorTimer timer_;
  double begin_ = 0;
  std::size_t done_ = 0;
  std::vector<CalibrationCase> cases_;
  Calibration out_;
};

}  // namespace

absl::StatusOr<Calibration> calibrate(const CalibrateOptions& options) { return Calibrating(options).made(); }

}  // namespace saturate
