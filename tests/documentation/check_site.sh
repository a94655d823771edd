#!/bin/bash
# The documentation as a site: every page is there and linked, no link leads nowhere, and a public name
# without a comment makes the build fail, which names it. Needs Python 3 and Doxygen, nothing of Bazel.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONDONTWRITEBYTECODE=1

for program in python3 doxygen; do
  type -P "$program" >/dev/null || { echo "$program is not installed"; exit 1; }
done
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
# make_site EXPECTED_STATUS ARGUMENT...: what it prints is in $scratch/log.
make_site() {
  local wanted="$1" status=0
  shift
  python3 tools/docs/make_site.py "$@" >"$scratch/log" 2>&1 || status=$?
  ((status == wanted)) && return
  fail "make_site.py $* gave status $status, expected $wanted"
  head -n 40 "$scratch/log"
}

site="$scratch/site"
# A folder of somebody's is left as it is; of an earlier site no page stays.
mkdir "$site"
touch "$site/page_of_an_earlier_site.html"
make_site 2 "--out=$site"
[[ -e "$site/page_of_an_earlier_site.html" ]] || fail "a folder that is no site was emptied"
touch "$site/.tessera-documentation"
make_site 0 "--out=$site"
[[ ! -e "$site/page_of_an_earlier_site.html" ]] || fail "a page of an earlier site stayed"
[[ -s "$site/index.html" ]] || fail "there is no first page"
for page in CONTRIBUTING $(basename -s .md docs/*.md); do
  name="${page,,}"
  [[ -s "$site/$name.html" ]] || fail "there is no $name.html"
  grep -qF "href=\"$name.html\"" "$site/index.html" "$site/getting-started.html" ||
    fail "README and getting-started.md do not lead to $name.html"
done
for header in error tensor engine storage registry executor module; do
  grep -qF ">$header.h<" "$site/files.html" || fail "$header.h is not among the files"
done
grep -qF 'Runs functions in the order' "$site/classtessera_1_1Engine.html" || fail "Engine has no comment"
[[ -s "$site/search/search.js" ]] || fail "there is no search"
grep -qF 'site.css' "$site/settings.html" && [[ -s "$site/site.css" ]] || fail "tables have no style of ours"
python3 tests/documentation/links.py "$site" || failures=$((failures + 1))

# Declarations that need a comment and have none, and others between them that need none or share one.
copy="$scratch/copy"
mkdir "$copy"
cp --parents --no-dereference -t "$copy" BUILD LICENSE README.md CONTRIBUTING.md docs/*.md examples/components/*.cc
find base compat engine graph io kvstore ndarray ops resource storage symbol tensor train \
  \( -name BUILD -o -name '*.h' \) -exec cp --parents -t "$copy" {} +
cp docs/*.png "$copy/docs"
cat >"$copy/base/planted.h" <<'EOT'
#ifndef TESSERA_BASE_PLANTED_H_
#define TESSERA_BASE_PLANTED_H_
#define TESSERA_PLANTED_MACRO 1
namespace tessera {
int PlantedFunction(int value);  // NOLINT: this is no comment on it
struct PlantedStruct {
  int field;
};

/// With a comment.
class Planted {
 public:
  Planted() = default;
  explicit Planted(int value);
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted& other);
  ~Planted();
  void Uncommented() const;

  /// Shared by two.
  int first() const { return first_; }
  int second() const {
    return first_;
  }

  int Uncommented(int) const;

  int alone = 0, more = 0;
  int explained = 0;  // as here

 private:
  int Hidden();
  int first_ = 0;
};

/// Shared by two.
enum class PlantedKind { kOne, kTwo };
using PlantedAlias = PlantedKind;

/// Reads one value.
int PlantedRead();
int PlantedRead(int value);
void Write(int value);

/// With specializations.
template <typename T>
struct PlantedTrait {
  int of_all;  ///< what each has
};
template <>
struct PlantedTrait<int> {
  int of_all, of_some, of_int;
};
template <>
struct PlantedTrait<long> {
  int of_all;
  int of_some;  ///< explained once
};

template <typename T>
requires(sizeof(T) > 1) T PlantedTemplate(T value) { return value; }

template <typename T>
concept PlantedConcept = requires(T value) { value.Uncommented(); };

namespace planted_internal {
int Internal();
}  // namespace planted_internal
}  // namespace tessera
#endif  // TESSERA_BASE_PLANTED_H_
EOT
sed -i 's|#include "tessera/base/error.h"|&\n#include "tessera/base/planted.h"|' "$copy/base/dtype.h"
make_site 1 "--root=$copy" "--out=$site"
[[ -s "$site/classtessera_1_1Engine.html" ]] || fail "a site with faults took the place of one without"
cat >"$scratch/expected" <<'EOT'
base/planted.h:18: tessera::Planted::Uncommented has no comment
base/planted.h:26: tessera::Planted::Uncommented has no comment
base/planted.h:28: tessera::Planted::alone has no comment
base/planted.h:28: tessera::Planted::more has no comment
base/planted.h:3: TESSERA_PLANTED_MACRO has no comment
base/planted.h:43: tessera::Write has no comment
base/planted.h:52: tessera::PlantedTrait< int >::of_int has no comment
base/planted.h:5: tessera::PlantedFunction has no comment
base/planted.h:61: tessera::PlantedTemplate has no comment
base/planted.h:64: tessera::PlantedConcept has no comment
base/planted.h:6: tessera::PlantedStruct has no comment
base/planted.h:7: tessera::PlantedStruct::field has no comment
EOT
grep '^base/planted.h' "$scratch/log" >"$scratch/found" || true
diff "$scratch/expected" "$scratch/found" || fail "these are not the names that were planted"
grep -v '^base/planted.h' "$scratch/log" | grep '^[a-z0-9/_]*\.h:' && fail "names that were not planted"

# Without Doxygen: one sentence that says where it is from.
python="$(python3 -c 'import sys; print(sys.executable)')"
status=0
answer="$(env PATH=/nonexistent "$python" tools/docs/make_site.py "--out=$scratch/none" 2>&1)" || status=$?
if ((status != 2)) || [[ "$answer" != *"package doxygen"* ]]; then
  fail "without Doxygen: status $status and '$answer'"
fi

if ((failures)); then
  echo "$failures failures"
  exit 1
fi
echo "every public name has a comment"
