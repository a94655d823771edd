#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/train/metrics.h"

namespace tessera {
namespace {

/// A metric's name, another one, and what makes it.
struct Row {
  std::string_view name, alias;
  std::function<EvalMetric()> make;
};

const Row kTable[] = {
    {"accuracy", "acc", [] { return Accuracy(); }},
    {"cross-entropy", "ce", [] { return CrossEntropy(); }},
    {"nll-loss", "nll_loss", [] { return NegativeLogLikelihood(); }},
    {"perplexity", "ppl", [] { return Perplexity(); }},
    {"f1", "f1", [] { return F1(); }},
    {"mcc", "mcc", [] { return Mcc(); }},
    {"roc-auc", "auc", [] { return RocAuc(); }},
    {"mae", "mae", [] { return Mae(); }},
    {"mse", "mse", [] { return Mse(); }},
    {"rmse", "rmse", [] { return Rmse(); }},
    {"pearsonr", "pearsonr", [] { return PearsonCorrelation(); }},
    {"loss", "loss", [] { return Loss(); }},
};

}  // namespace

EvalMetric EvalMetric::Create(std::string_view name) {
  std::string known;
  for (const Row& row : kTable) {
    if (name == row.name || name == row.alias) return row.make();
    if (!known.empty()) known += ", ";
    known += row.name;
  }
  throw NotFound("EvalMetric::Create: unknown metric '", Excerpt(name),
                 "', expected one of: ", known);
}

}  // namespace tessera
