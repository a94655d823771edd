// _histogram: the number of elements in each of several bins.
//
//   output0[b] = the number of elements x with output1[b] <= x < output1[b + 1]
//
// The last bin has its upper end, and elements outside of all bins, or NaN, are in none. The ends
// of bins, output1, are the input bins, which must ascend, or with bin_cnt and range=(low, high)
// those of bin_cnt bins of equal width in data's type; low = high stands for (low - 0.5, low +
// 0.5). There is no gradient. Shapes: data any; bins and output1 (bins + 1); output0 (bins). Types:
// data, bins and output1 of one type; output0 int64. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct HistogramParameters {
  std::optional<int64_t> bin_cnt;
  std::optional<std::string> range;
  double low = 0, high = 0;  // from range

  static void Declare(ParameterSchema<HistogramParameters>& schema) {
    using P = HistogramParameters;
    schema.Optional("bin_cnt", &P::bin_cnt, "the number of bins of equal width");
    schema.Range(1, 1 << 30);
    schema.Optional("range", &P::range, "(low, high): the ends of all bins of equal width");
  }
};

class HistogramProperty final : public ParameterizedProperty<HistogramParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.bin_cnt) return {"data"};
    return {"data", "bins"};
  }
  std::vector<std::string> ListOutputs() const override { return {"output0", "output1"}; }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& counts = (*out_shape)[0];
    TShape& ends = (*out_shape)[1];
    if (param_.bin_cnt) {
      MergeShape(*this, "output0", &counts, {*param_.bin_cnt});
      MergeShape(*this, "output1", &ends, {*param_.bin_cnt + 1});
      return (*in_shape)[0].known();
    }
    TShape& bins = (*in_shape)[1];
    MergeShape(*this, "output0", &counts, TShape::OfRank(1));
    TShape from_counts = TShape::OfRank(1);
    if (counts[0] != TShape::kUnknown) from_counts[0] = counts[0] + 1;
    MergeEqualShapes(*this,
                     {{"output0 and one more", &from_counts}, {"bins", &bins}, {"output1", &ends}});
    if (bins[0] != TShape::kUnknown) {
      if (bins[0] < 2) {
        throw InvalidArgument(TypeString(), ": bins has shape ", bins,
                              ", expected at least 2 elements");
      }
      counts[0] = bins[0] - 1;
    }
    return (*in_shape)[0].known() && bins.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if ((*out_type)[0] != DType::kUnknown && (*out_type)[0] != DType::kInt64) {
      throw InvalidArgument(TypeString(), ": output0 has element type ", (*out_type)[0],
                            ", expected int64");
    }
    (*out_type)[0] = DType::kInt64;
    std::vector<DType> ends = {(*out_type)[1]};
    const bool known = OperatorProperty::InferType(in_type, &ends);
    (*out_type)[1] = ends[0];
    return known;
  }

 protected:
  void CheckParameters() override {
    if (param_.bin_cnt.has_value() != param_.range.has_value()) {
      throw InvalidArgument(TypeString(), ": parameters bin_cnt and range, of which ",
                            param_.bin_cnt ? "bin_cnt" : "range", " is given, go together");
    }
    if (!param_.range) return;
    try {
      ParseRange();
    } catch (const Error&) {
      throw InvalidArgument(TypeString(), ": parameter range is \"", *param_.range,
                            "\", expected (low, high)");
    }
    const double bins = static_cast<double>(*param_.bin_cnt);
    const bool is_finite = std::isfinite(param_.low * bins) && std::isfinite(param_.high * bins) &&
                           std::isfinite((param_.high - param_.low) * bins);
    if (!(param_.low <= param_.high) || !is_finite) {
      throw InvalidArgument(TypeString(), ": parameter range is \"", *param_.range,
                            "\", expected two numbers, the smaller one first");
    }
    if (param_.low == param_.high) {
      param_.low -= 0.5;
      param_.high += 0.5;
    }
  }

 private:
  void ParseRange() {
    const std::string& text = *param_.range;
    const size_t comma = text.find(',');
    const bool in_brackets = text.size() > 2 && (text[0] == '(' || text[0] == '[');
    if (comma == std::string::npos || !in_brackets) throw InvalidArgument("no pair");
    const auto number = [](std::string part) {
      std::erase(part, ' ');
      return ParameterText<double>::Parse(part);
    };
    param_.low = number(text.substr(1, comma - 1));
    param_.high = number(text.substr(comma + 1, text.size() - comma - 2));
  }
};

/// The bins of a call.
class Bins {
 public:
  Bins(const HistogramParameters& param, index_t count, std::vector<double> ends)
      : is_uniform_(param.bin_cnt.has_value()),
        low_(param.low),
        high_(param.high),
        count_(count),
        ends_(std::move(ends)) {}

  /// Returns the bin of an element, or -1.
  index_t Find(double x) const {
    if (!is_uniform_) {
      if (!(x >= ends_.front() && x <= ends_.back())) return -1;
      const auto above = std::upper_bound(ends_.begin(), ends_.end(), x);
      return std::min<index_t>(above - ends_.begin() - 1, count_ - 1);
    }
    if (!(x >= low_ && x <= high_)) return -1;
    const double position = (x - low_) * static_cast<double>(count_) / (high_ - low_);
    index_t bin = std::min(static_cast<index_t>(position), count_ - 1);
    // The ends are rounded to data's type.
    if (bin > 0 && x < ends_[static_cast<size_t>(bin)]) --bin;
    if (bin < count_ - 1 && x >= ends_[static_cast<size_t>(bin + 1)]) ++bin;
    return bin;
  }

 private:
  const bool is_uniform_;
  const double low_, high_;
  const index_t count_;
  const std::vector<double> ends_;
};

class HistogramOperator final : public Operator {
 public:
  explicit HistogramOperator(const HistogramParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[0];
    const DType dtype = data.type_flag_;
    const index_t count = param_.bin_cnt ? *param_.bin_cnt : in_data[1].shape_[0] - 1;
    std::vector<double> ends(static_cast<size_t>(count + 1));
    if (param_.bin_cnt) {
      for (index_t i = 0; i <= count; ++i) {
        const double end =
            (param_.high * static_cast<double>(i) + param_.low * static_cast<double>(count - i)) /
            static_cast<double>(count);
        char element[16];
        StoreRow(&end, 1, /*add=*/false, dtype, element);
        LoadRow(element, dtype, 1, 1, &ends[static_cast<size_t>(i)]);
      }
    } else {
      RowReader<double>(in_data[1]).Copy(0, count + 1, ends.data());
    }
    RowWriter<double>(out_data[1], req[1]).Write(0, count + 1, ends.data());
    if (req[0] == kNullOp) return;
    const std::vector<int64_t> totals = Count(data, Bins(param_, count, std::move(ends)), count);
    RowWriter<int64_t>(out_data[0], req[0]).Write(0, count, totals.data());
  }

 private:
  /// Counts the elements of parts, and adds the parts.
  static std::vector<int64_t> Count(const TBlob& data, const Bins& bins, index_t count) {
    const index_t size = data.shape_.Size();
    const index_t parts = std::clamp<index_t>(size / std::max<index_t>(count, 1 << 14), 1, 64);
    const index_t part_size = (size + parts - 1) / parts;
    std::vector<int64_t> counts(static_cast<size_t>(parts * count), 0);
    ParallelFor(parts, 1, [&](index_t begin, index_t end) {
      for (index_t part = begin; part < end; ++part) {
        int64_t* const of_part = &counts[static_cast<size_t>(part * count)];
        const index_t last = std::min(size, (part + 1) * part_size);
        constexpr index_t kPiece = 512;
        double values[kPiece];
        for (index_t first = part * part_size; first < last; first += kPiece) {
          const index_t n = std::min(kPiece, last - first);
          const double* const row = RowReader<double>(data).Read(first, n, values);
          for (index_t i = 0; i < n; ++i) {
            const index_t bin = bins.Find(row[i]);
            if (bin >= 0) ++of_part[bin];
          }
        }
      }
    });
    for (index_t part = 1; part < parts; ++part) {
      for (index_t b = 0; b < count; ++b) {
        counts[static_cast<size_t>(b)] += counts[static_cast<size_t>(part * count + b)];
      }
    }
    counts.resize(static_cast<size_t>(count));
    return counts;
  }

  const HistogramParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<HistogramProperty, HistogramOperator>(
        TESSERA_TABLE_PLACE, "_histogram", "The number of elements in each of several bins.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera
