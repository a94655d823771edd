#!/bin/bash
# The digits example from end to end: digits_test.sh PROGRAM DATA_FOLDER

set -uo pipefail

program="$PWD/$1"
bundled="$PWD/$2"
scratch="$(mktemp -d "${TEST_TMPDIR:-/tmp}/digits.XXXXXX")"
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
unset BUILD_WORKING_DIRECTORY
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# A folder of its own with a copy of the digits, to spoil.
copy_data() {
  rm -rf "$scratch/data"
  mkdir "$scratch/data"
  cp -L "$bundled"/*-ubyte "$scratch/data/"
  chmod u+w "$scratch"/data/*
}

# trains ARGUMENT...: the program must succeed; its output is left in $output.
trains() {
  output="$("$program" "$@" 2>"$scratch/stderr")" || {
    fail "$* ended with $?: $(cat "$scratch/stderr")"
    return 1
  }
  local last
  last="$(tail -n 2 <<<"$output" | tr '\n' ' ')"
  [[ "$last" =~ ^test_accuracy=[01]\.[0-9]{4}\ images_per_second=[0-9]+\ $ ]] ||
    fail "$*: unexpected last lines: $last"
}

accuracy() { sed -n 's/^test_accuracy=//p' <<<"$output"; }

# Loss and accuracy of every epoch, without the times.
course() { sed -E 's/ [0-9]+ images.*//; /^images_per_second/d' <<<"$output"; }

at_least() { # ACCURACY BOUND
  awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }' || fail "test accuracy $1, expected $2 or more"
}

# refuses WORDS ARGUMENT...: exit code 2, nothing but one line on stderr, which has the words (separated
# by |) in it.
refuses() {
  local words="$1" status=0 word
  shift
  "$program" "$@" >"$scratch/stdout" 2>"$scratch/stderr" || status=$?
  local message
  message="$(cat "$scratch/stderr")"
  ((status == 2)) || fail "$* ended with $status, expected 2: $message"
  (($(wc -l <"$scratch/stderr") == 1)) || fail "$*: expected one line on stderr: $message"
  IFS='|' read -ra list <<<"$words"
  for word in "${list[@]}"; do
    [[ "$message" == *"$word"* ]] || fail "$*: expected '$word' in: $message"
  done
  echo "refused: $message"
}

echo "== training"
trains --model=mlp && at_least "$(accuracy)" 0.93
mlp="$(course)"
trains --model=mlp && [[ "$(course)" == "$mlp" ]] || fail "two runs with one seed differ"
trains --model=mlp --kvstore=local && [[ "$(course)" == "$mlp" ]] || fail "a store changes the result"
trains --model=mlp --seed=2 && [[ "$(course)" != "$mlp" ]] || fail "the seed has no effect"
trains --epochs=2 && at_least "$(accuracy)" 0.8
trains --model=cnn --epochs=1 --batch_size=50 --lr=0.02
"$program" --help | grep -q -- --batch_size || fail "--help does not explain --batch_size"

echo "== other data"
copy_data
trains --model=mlp --epochs=1 --data="$scratch/data"
plain="$(course)"
gzip "$scratch"/data/train-* "$scratch"/data/t10k-*
trains --model=mlp --epochs=1 --data="$scratch/data" && [[ "$(course)" == "$plain" ]] ||
  fail "compressed files give another result"
# Twenty images of 28x28, for both halves.
rm "$scratch"/data/*.gz
for half in train t10k; do
  { printf '\0\0\10\3\0\0\0\24\0\0\0\34\0\0\0\34'; head -c 15680 "$bundled/train-images-idx3-ubyte"; } \
    >"$scratch/data/$half-images-idx3-ubyte"
  { printf '\0\0\10\1\0\0\0\24'; tail -c 20 "$bundled/train-labels-idx1-ubyte"; } \
    >"$scratch/data/$half-labels-idx1-ubyte"
done
trains --data="$scratch/data" --epochs=1 --batch_size=7
trains --data="$scratch/data" --epochs=1 --batch_size=7 --model=mlp
mv "$scratch/data" "$scratch/wide"

echo "== wrong data"
images=train-images-idx3-ubyte
labels=train-labels-idx1-ubyte
labels_of=labels-idx1-ubyte
with_data=(--model=mlp --epochs=1 --data="$scratch/data")
copy_data; rm "$scratch/data/$labels"
refuses "$labels|no such file|expected an IDX file" "${with_data[@]}"
copy_data; truncate -s 5000 "$scratch/data/$images"
refuses "$images|truncated|found 5000|expected 91984" "${with_data[@]}"
copy_data; truncate -s 10 "$scratch/data/$images"
refuses "$images|truncated header|found 10" "${with_data[@]}"
copy_data; printf 'xyz' >>"$scratch/data/$images"
refuses "$images|too long|found 91987|expected 91984" "${with_data[@]}"
copy_data; printf 'PK\3\4' | dd of="$scratch/data/$images" conv=notrunc status=none
refuses "$images|not an IDX file|ZIP archive" "${with_data[@]}"
copy_data; printf 'PQ\3\4' | dd of="$scratch/data/$images" conv=notrunc status=none
refuses "$images|wrong magic number 0x50510304|0x00000803" "${with_data[@]}"
copy_data; cp "$scratch/data/$labels" "$scratch/data/$images"
refuses "$images|expected images" "${with_data[@]}"
copy_data; printf '\13' | dd of="$scratch/data/$labels" bs=1 seek=11 conv=notrunc status=none
refuses "$labels|label 11 at position 3|from 0 to 9" "${with_data[@]}"
copy_data; cp "$scratch/data/t10k-labels-idx1-ubyte" "$scratch/data/$labels"
refuses "$labels|found 360 labels|expected 1437" "${with_data[@]}"
copy_data; gzip "$scratch/data/$images"; truncate -s 9000 "$scratch/data/$images.gz"
refuses "$images.gz|compressed|truncated" "${with_data[@]}"
copy_data; gzip "$scratch/data/$images"
printf '\377\377\377\377' | dd of="$scratch/data/$images.gz" bs=1 seek=5000 conv=notrunc status=none
refuses "$images.gz|compressed" "${with_data[@]}"
copy_data; rm "$scratch/data/t10k-$labels_of"
refuses "t10k-$labels_of|no such file" "${with_data[@]}"
copy_data; printf '\144' | dd of="$scratch/data/t10k-$labels_of" bs=1 seek=8 conv=notrunc status=none
refuses "t10k-$labels_of|label 100 at position 0|from 0 to 9" "${with_data[@]}"
copy_data; rm "$scratch/data/$images"; mkfifo "$scratch/data/$images"
refuses "$images|expected a file" "${with_data[@]}"
copy_data; printf '\0\0\10\3\0\0\0\0\0\0\0\10\0\0\0\10' >"$scratch/data/$images"
printf '\0\0\10\1\0\0\0\0' >"$scratch/data/$labels"
refuses "found no examples" "${with_data[@]}"
copy_data
printf '\0\0\10\3\0\0\5\235\0\0\0\0\0\0\0\10' >"$scratch/data/$images"
refuses "$images|shape (1437,0,8)|at least one pixel" "${with_data[@]}"
copy_data
{ printf '\0\0\15\3\0\0\5\235\0\0\0\10\0\0\0\10'; head -c 367872 /dev/zero | tr '\0' '\377'; } \
  >"$scratch/data/$images"
refuses "$images|nan at position 0|finite" "${with_data[@]}"
copy_data
{ printf '\0\0\10\3\0\0\1\150\0\0\0\4\0\0\0\4'; head -c 5760 "$bundled/$images"; } \
  >"$scratch/data/t10k-images-idx3-ubyte"
refuses "t10k-images-idx3-ubyte|images of shape (4,4)|expected (8,8)" --epochs=1 --data="$scratch/data"
copy_data
refuses "batch_size 1438|expected at most 1437" "${with_data[@]}" --batch_size=1438
refuses "$scratch/nowhere|is no folder" --data="$scratch/nowhere"
refuses "$images|is no folder" --data="$scratch/data/$images"
refuses "--data|expected a folder" --data ""

echo "== wrong arguments"
refuses "--colour" --colour=blue
refuses "extra" extra
refuses "--model|rnn|cnn" --model=rnn
refuses "--device|tpu" --device=tpu
refuses "--epochs|0" --epochs=0
refuses "--epochs|many" --epochs=many
refuses "--epochs|-1" --epochs=-1
refuses "--epochs|99999999999" --epochs=99999999999
refuses "--epochs|010" --epochs=010
refuses "--batch_size|-1" --batch_size=-1
refuses "--batch_size|0" --batch_size=0
refuses "--lr" --lr=0
refuses "--lr|-1,|expected a number from" --lr=-1
(($(wc -c <"$scratch/stderr") < 120)) || fail "--lr=-1: a long message: $(cat "$scratch/stderr")"
refuses "--lr|expected a number from" --lr=1e-320
refuses "--lr|fast" --lr=fast
refuses "--lr" --lr=inf
refuses "--lr" --lr=nan
refuses "--lr|float32" --lr=1e39
refuses "--wd" --wd=nan
refuses "--wd|-0.1|from 0" --wd=-0.1
refuses "--seed" --seed=x
refuses "--seed|-1" --seed=-1
refuses "--seed|99999999999999999999" --seed=99999999999999999999
refuses "the loss is|--lr" --model=mlp --epochs=2 --lr=1e20 --checkpoint="$scratch/diverged"
compgen -G "$scratch/diverged*" && fail "a diverged network was saved"
TMPDIR="$scratch/absent" refuses "temporary folder|--checkpoint" --model=mlp --epochs=1
mkdir "$scratch/busy-0002.params"
refuses "--checkpoint|busy-0002.params" --model=mlp --epochs=2 --checkpoint="$scratch/busy"
refuses "--resume|--checkpoint" --resume=1
# Before any epoch, and not after the last one.
refuses "--checkpoint|too long" --model=mlp --checkpoint="$scratch/$(printf 'a%.0s' {1..250})"
[[ ! -s "$scratch/stdout" ]] || fail "trained for a checkpoint that cannot be written"
(
  failures=0
  ulimit -f 20
  refuses "limited-0001.params|File too large" --model=mlp --epochs=1 --checkpoint="$scratch/limited"
  exit "$failures"
) || failures=$((failures + 1))
compgen -G "$scratch/limited*" || compgen -G "$scratch/.tmp.*" && fail "a checkpoint above the limit left something behind"
if [[ -c /dev/full ]]; then
  status=0
  "$program" --model=mlp --epochs=1 >/dev/full 2>"$scratch/stderr" || status=$?
  ((status == 2)) && grep -q 'standard output' "$scratch/stderr" ||
    fail "results that nobody gets: ended with $status: $(cat "$scratch/stderr")"
fi
refuses "--checkpoint|$scratch/absent|no folder" --checkpoint="$scratch/absent/model"
# Where there is no GPU, or no CUDA in the build, the answer is a line that says so.
if "$program" --device=gpu --model=mlp --epochs=1 >"$scratch/stdout" 2>&1; then
  grep -q '^test_accuracy=' "$scratch/stdout" || fail "--device=gpu trained without a result"
else
  refuses "gpu(0)" --device=gpu --model=mlp --epochs=1
fi

echo "== checkpoints"
copy_data
prefix="$scratch/model"
trains --model=mlp --epochs=3 --checkpoint="$prefix"
[[ -s "$prefix-symbol.json" && -s "$prefix-0003.params" ]] || fail "no checkpoint was left"
trains --model=mlp --epochs=4 --checkpoint="$prefix" --resume=3
# 1437 digits make 45 batches of 32.
grep -q '^resumed after epoch 3, update 135; momentum .* start anew$' <<<"$output" ||
  fail "--resume does not say what it continues: $output"
rm "$prefix-0004.params"
state() { (cd "$scratch" && sha256sum model-*); }
resume=(--model=mlp --epochs=4 --checkpoint="$prefix" --resume=3)
cp "$prefix-0003.params" "$scratch/whole"
for size in 0 20 3000 $(($(stat -c %s "$scratch/whole") - 1)); do
  head -c "$size" "$scratch/whole" >"$prefix-0003.params"
  before="$(state)"
  refuses "model-0003.params" "${resume[@]}"
  [[ "$(state)" == "$before" ]] || fail "a damaged checkpoint had files changed"
done
cp "$scratch/whole" "$prefix-0003.params"
refuses "model-symbol.json|--model=cnn" --epochs=4 --checkpoint="$prefix" --resume=3
# The first layer reads a pixel in each column of its weights.
refuses "model-0003.params|found (128,64)|expected (128,784)" "${resume[@]}" --batch_size=7 --data="$scratch/wide"
cp "$prefix-symbol.json" "$scratch/symbol"
spoils() { # WORDS SED_COMMAND: the saved network, changed
  sed "$2" "$scratch/symbol" >"$prefix-symbol.json"
  cmp -s "$scratch/symbol" "$prefix-symbol.json" && fail "$2 changes nothing"
  refuses "model-symbol.json|$1" "${resume[@]}"
}
spoils "another network" 's/"FullyConnected"/"FullyConected"/'
spoils "unknown parameter|num_hiden|did you mean" 's/"num_hidden"/"num_hiden"/'
sed 's/"num_hidden": "128"/"num_hidden": "99"/' "$scratch/symbol" >"$prefix-symbol.json"
refuses "model-0003.params|another network|model-symbol.json" "${resume[@]}"
# Without digest and checksum, as MXNet writes parameters.
head -c "-20" "$scratch/whole" >"$prefix-0003.params"
refuses "model-0003.params|fc1_bias|found (128,)|expected (99,)" "${resume[@]}"
sed 's/"FullyConnected"/"FullyConected"/' "$scratch/symbol" >"$prefix-symbol.json"
refuses "unknown operator|FullyConected|did you mean" "${resume[@]}"
sed 's/"FullyConnected"/"Frobnicate"/' "$scratch/symbol" >"$prefix-symbol.json"
refuses "unknown operator|Frobnicate|expected" "${resume[@]}"
cp "$scratch/whole" "$prefix-0003.params"
echo '{' >"$prefix-symbol.json"
refuses "model-symbol.json" "${resume[@]}"
rm "$prefix-symbol.json"
mkdir "$prefix-symbol.json"
refuses "model-symbol.json|no ordinary file" "${resume[@]}"
rmdir "$prefix-symbol.json"
cp "$scratch/symbol" "$prefix-symbol.json"
flipped="$(($(stat -c %s "$scratch/whole") / 2))"
{ head -c "$flipped" "$scratch/whole"; printf '\1\1\1\1'; tail -c "+$((flipped + 5))" "$scratch/whole"; } \
  >"$prefix-0003.params"
refuses "model-0003.params|checksum" "${resume[@]}"
cp "$scratch/whole" "$prefix-0003.params"
mkdir "$scratch/empty"
refuses "empty/model-symbol.json" --epochs=4 --checkpoint="$scratch/empty/model" --resume=3

echo "== trainings that go on"
training=(--model=mlp --training="$scratch/training")
trains --model=mlp --epochs=6 --checkpoint="$scratch/whole" --test_images="$scratch/images.npy"
# 360 images of 64 pixels, in float32, behind a header.
(($(stat -c %s "$scratch/images.npy") / 256 == 360)) || fail "--test_images: another size than expected"
trains --epochs=2 "${training[@]}"
trains --epochs=6 "${training[@]}" --checkpoint="$scratch/continued"
grep -q '^continued from update 90$' <<<"$output" || fail "--training does not say where it goes on: $output"
cmp "$scratch/whole-0006.params" "$scratch/continued-0006.params" || fail "a training that went on has other weights"
refuses "--training|--resume" --epochs=7 "${training[@]}" --checkpoint="$scratch/whole" --resume=6
refuses "step 270|another network" --epochs=7 --training="$scratch/training"
refuses "value 1 of setup is 32|expected 16" --epochs=7 "${training[@]}" --batch_size=16
printf 'x' >>"$scratch/training/0000000270/state.params"
refuses "0000000270/state.params|checksum|manifest" --epochs=7 "${training[@]}"
refuses "no folder" --training="$scratch/whole-0006.params"

echo "== signals"
# interrupts SIGNAL ARGUMENT...: sends it after the first epoch's line. Leaves the status in $status,
# and what is in the folder for temporary files in $left.
interrupts() {
  local signal="$1" child waited
  shift
  mkdir -p "$scratch/tmp"
  : >"$scratch/stdout" # the program before left lines that the loop below must not find
  # Not ignored, as SIGINT is in what a script starts in the background.
  TMPDIR="$scratch/tmp" env --default-signal "$program" --model=mlp --epochs=1000000 "$@" \
    >"$scratch/stdout" 2>"$scratch/stderr" &
  child=$!
  for ((waited = 0; waited < 600; ++waited)); do
    grep -q '^epoch' "$scratch/stdout" && break
    sleep 0.1
  done
  kill "-$signal" "$child"
  status=0
  wait "$child" 2>/dev/null || status=$?
  left="$(ls -A "$scratch/tmp")"
}
interrupts INT --checkpoint="$scratch/stopped"
((status == 130)) || fail "SIGINT: ended with $status: $(cat "$scratch/stderr")"
saved="$(sed -n 's/^stopped in epoch [0-9]*; saved //p' "$scratch/stdout")"
if [[ -s "$saved" ]]; then
  number="${saved##*-}"
  number="$((10#${number%.params}))"
  trains --model=mlp --checkpoint="$scratch/stopped" --resume="$number" --epochs="$((number + 1))"
else
  fail "SIGINT: no network was saved: $(cat "$scratch/stdout")"
fi
interrupts INT --training="$scratch/interrupted"
((status == 130)) || fail "SIGINT with --training: ended with $status: $(cat "$scratch/stderr")"
number="$(sed -n 's/^stopped in epoch \([0-9]*\); the same command goes on .*/\1/p' "$scratch/stdout")"
trains --model=mlp --epochs="$number" --training="$scratch/interrupted" --checkpoint="$scratch/interrupted"
trains --model=mlp --epochs="$number" --checkpoint="$scratch/whole"
number="$(printf '%04d' "$number")"
cmp "$scratch/whole-$number.params" "$scratch/interrupted-$number.params" ||
  fail "a training that was interrupted has other weights"
interrupts KILL
[[ "$left" == tessera-digits-* ]] || fail "SIGKILL: expected a folder left behind: $left"
interrupts TERM
((status == 143)) || fail "SIGTERM: ended with $status: $(cat "$scratch/stderr")"
[[ -z "$left" ]] || fail "SIGTERM: left $left"

if ((failures)); then
  echo "$failures failures"
  exit 1
fi
echo "all as it should be"
