# Prints "NAME<TAB>FAMILY" for each operator that the given sources of operators register, and for its
# aliases. By hand, in the repository's root:
#
#     awk -f ops/mxnet/families.awk -v core="elemwise shape" ops/elemwise/add_n.cc ops/nn/pooling.cc
#
# A statement that registers operators begins with TESSERA_REGISTER_OPERATOR(NAME or with
# TESSERA_TABLE_PLACE, the first argument of the functions that register, and ends at the next
# semicolon. In it, a string that is an identifier is a name or an alias, unless a gradient's formula
# calls it; descriptions have several words. The family is the folder below ops/, or "core" for the
# folders that `core` lists.

BEGIN {
  RS = ";"
  split(core, folders, " ")
  for (i in folders) is_core[folders[i]] = 1
}

FNR == 1 {
  family = FILENAME
  sub(/^(.*\/)?ops\//, "", family)
  sub(/\/.*/, "", family)
  if (family in is_core) family = "core"
}

match($0, /TESSERA_REGISTER_OPERATOR\([A-Za-z0-9_]+/) {
  begin = RSTART + length("TESSERA_REGISTER_OPERATOR(")
  print substr($0, begin, RSTART + RLENGTH - begin) "\t" family
}

match($0, /TESSERA_(REGISTER_OPERATOR|TABLE_PLACE)/) {
  statement = substr($0, RSTART)
  gsub(/Apply\("[^"]*"/, "", statement)
  while (match(statement, /"[^"]*"/)) {
    text = substr(statement, RSTART + 1, RLENGTH - 2)
    if (text ~ /^[A-Za-z_][A-Za-z0-9_]*$/) print text "\t" family
    statement = substr(statement, RSTART + RLENGTH)
  }
}
