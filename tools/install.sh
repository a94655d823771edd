#!/bin/bash
# Puts headers, libtessera.so, libtessera.a, the files by which pkg-config and CMake find them, and
# libtessera_mxnet.so below a prefix: ./bazelw run //tools:install -- --prefix=DIR

set -euo pipefail

prefix=
for argument in "$@"; do
  case "$argument" in
    --prefix=?*) prefix="${argument#*=}" ;;
    *)
      echo "usage: ./bazelw run //tools:install -- --prefix=DIR" >&2
      exit 2
      ;;
  esac
done
[[ -n "$prefix" ]] || { echo "install: --prefix=DIR says where to" >&2; exit 2; }
# A relative path is meant from where the person stands.
[[ "$prefix" == /* ]] || prefix="${BUILD_WORKING_DIRECTORY:-$PWD}/$prefix"
version=0.1.0

headers=0
while read -r from included; do
  install -D -m 644 "$from" "$prefix/include/$included"
  headers=$((headers + 1))
done <tools/tessera.headers
install -D -m 755 tools/libtessera.so "$prefix/lib/libtessera.so"
install -D -m 644 tools/libtessera.a "$prefix/lib/libtessera.a"
# Programs look for the name that they were linked with, which has the version of MXNet's interface.
install -D -m 755 compat/mxnet/libtessera_mxnet.so "$prefix/lib/libtessera_mxnet.so.1"
ln -sfn libtessera_mxnet.so.1 "$prefix/lib/libtessera_mxnet.so"
install -D -m 644 LICENSE "$prefix/share/licenses/tessera/LICENSE"
libraries="$(<tools/tessera.flags)"

# Both find the prefix from where they lie, so that the folder may be moved.
mkdir -p "$prefix/lib/pkgconfig" "$prefix/lib/cmake/tessera"
cat >"$prefix/lib/pkgconfig/tessera.pc" <<PC
prefix=\${pcfiledir}/../..

Name: tessera
Description: Deep-learning runtime in components
Version: $version
Requires: eigen3
Cflags: -std=c++20 -I\${prefix}/include
Libs: -L\${prefix}/lib -ltessera
Libs.private: $libraries
PC
cat >"$prefix/lib/cmake/tessera/tesseraConfig.cmake" <<CMAKE
# tessera::tessera is the shared library, tessera::static the static one.
include(CMakeFindDependencyMacro)
find_dependency(Eigen3)
get_filename_component(tessera_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(tessera_kind shared static)
  set(tessera_name tessera::\${tessera_kind})
  if(NOT TARGET \${tessera_name})
    string(TOUPPER \${tessera_kind} tessera_upper)
    add_library(\${tessera_name} \${tessera_upper} IMPORTED)
    set_target_properties(\${tessera_name} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "\${tessera_prefix}/include"
      INTERFACE_COMPILE_FEATURES cxx_std_20
      INTERFACE_LINK_LIBRARIES Eigen3::Eigen)
  endif()
endforeach()
set_target_properties(tessera::shared PROPERTIES
  IMPORTED_LOCATION "\${tessera_prefix}/lib/libtessera.so" IMPORTED_SONAME libtessera.so)
set_target_properties(tessera::static PROPERTIES
  IMPORTED_LOCATION "\${tessera_prefix}/lib/libtessera.a")
set_property(TARGET tessera::static APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${libraries// /;})
# No alias, which CMake before 3.18 does not make of what is imported.
if(NOT TARGET tessera::tessera)
  add_library(tessera::tessera INTERFACE IMPORTED)
  set_target_properties(tessera::tessera PROPERTIES INTERFACE_LINK_LIBRARIES tessera::shared)
endif()
CMAKE
cat >"$prefix/lib/cmake/tessera/tesseraConfigVersion.cmake" <<CMAKE
set(PACKAGE_VERSION $version)
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
CMAKE
echo "$headers headers and three libraries are in $prefix"
