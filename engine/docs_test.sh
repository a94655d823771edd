#!/bin/bash
# Fails unless docs/engine.md shows its sample to the letter, and the sample prints what it says.
set -u
status=0
# Both texts as one line each, so that a plain substring test compares them whole.
document="$(<docs/engine.md)"
if [[ "$document" != *"$(<engine/engine_docs_example.cc)"* ]]; then
  echo "docs/engine.md does not show engine/engine_docs_example.cc as it is"
  status=1
fi
output="$(engine/engine_docs_example)" || { echo "the sample failed"; status=1; }
if [[ "$document" != *"$output"* ]]; then
  echo "docs/engine.md does not show what the sample prints:"
  echo "$output"
  status=1
fi
# Each of the engine's settings has its row.
for name in $(grep -ho '"TESSERA_[A-Z_]*"' engine/engine.cc | tr -d '"' | sort -u); do
  grep -q "^| \`$name\` | engine |" docs/settings.md || { echo "docs/settings.md lacks $name"; status=1; }
done
exit "$status"
