"""Tests of dialect.py."""

import textwrap
import unittest

import dialect


def translated(text: str) -> str:
    return "\n".join(line.text for line in dialect.translated(textwrap.dedent(text)))


class DialectTest(unittest.TestCase):

    def test_a_comment_is_shared_by_the_declarations_in_the_next_lines(self):
        self.assertEqual(translated("""\
            /// A sum.
            int a(int x);
            template <typename T>
            requires(sizeof(T) > 1) int b(T y) {
              return y;
            }

            int c();"""), textwrap.dedent("""\
            /// A sum.
            int a(int x);
            /// A sum.
            template <typename T>
            requires(sizeof(T) > 1) int b(T y) {
              return y;
            }

            int c();"""))

    def test_what_one_function_does_another_does_not(self):
        text = """\
            /// Reads a line.
            std::string ReadLine();
            std::string ReadLine(int limit);
            void Write(std::string_view text);
            void WriteLine(std::string_view text);"""
        self.assertEqual(translated(text), textwrap.dedent(text).replace(
            "std::string ReadLine(int", "/// Reads a line.\nstd::string ReadLine(int"))

    def test_what_a_class_is_a_function_is_not(self):
        text = """\
            /// A place.
            struct Place {};
            struct Spot {};
            constexpr Place kPlace;
            int Distance();"""
        self.assertEqual(translated(text), textwrap.dedent(text)
                         .replace("struct Spot", "/// A place.\nstruct Spot")
                         .replace("constexpr", "/// A place.\nconstexpr"))

    def test_what_is_said_of_constructors_is_shared_by_these_alone(self):
        text = """\
            class Shape {
              /// Throws.
              Shape(int a);
              explicit Shape(long a);
              int size() const;

              /// Ends it.
              void End();
              ~Shape();
              Shape(const Shape&) = delete;
            };"""
        self.assertEqual(translated(text), textwrap.dedent(text).replace(
            "  explicit", "  /// Throws.\n  explicit"))

    def test_lines_keep_their_numbers(self):
        lines = dialect.translated("/// A sum.\nint a();\nint b();\n")
        self.assertEqual([line.number for line in lines], [1, 2, 3, 3, 4])

    def test_a_comment_behind_a_field_is_its_comment(self):
        self.assertEqual(translated("""\
            struct S {
              int a = 0;  // the first
              int b{1};   // the second,
                          // and more of it
              int c;      // NOLINT
            };"""), textwrap.dedent("""\
            struct S {
              int a = 0;  ///< the first
              int b{1};   ///< the second,
                          ///< and more of it
              int c;      // NOLINT
            };"""))

    def test_names_behind_one_type_are_parted(self):
        self.assertEqual(translated("struct S {\n  int y = 1, x = 2;  ///< a size\n};"),
                         "struct S {\n/// a size\n  int y = 1;\n/// a size\n  int x = 2;\n};")

    def test_bodies_hold_no_declarations(self):
        text = "int f() {\n  int a = 0;  // inside\n  return a;\n}"
        self.assertEqual(translated(text), text)

    def test_directives_part_no_group(self):
        self.assertEqual(
            translated("/// Two.\n#ifndef A\n#define A 0\n#endif\n#ifndef B\n#define B 0\n#endif"),
            "/// Two.\n#ifndef A\n#define A 0\n#endif\n#ifndef B\n/// Two.\n#define B 0\n#endif")

    def test_an_enumeration_and_an_access_specifier_begin_anew(self):
        self.assertEqual(translated("""\
            class C {
             public:
              enum E {
                kA,  // first
                kB   // last
              };
              void f();
            };"""), textwrap.dedent("""\
            class C {
             public:
              enum E {
                kA,  ///< first
                kB   ///< last
              };
              void f();
            };"""))

    def test_what_stands_above_the_first_namespace_is_the_files(self):
        self.assertEqual(translated("/// About it.\nnamespace a {\n}  // namespace a"),
                         "/// @file\n/// About it.\n\nnamespace a {\n}  // namespace a")

    def test_indented_lines_are_a_table_unless_they_continue_a_list(self):
        self.assertEqual(
            translated("/// One of:\n///   a  first\n///   b  second\n/// and so on\nint f();"),
            "/// One of:\n///\n///       a  first\n///       b  second\n///\n/// and so on\nint f();")
        text = "/// - a\n///   goes on\nint f();"
        self.assertEqual(translated(text), text)

    def test_the_namespace_of_instruction_sets_is_left_out(self):
        self.assertEqual(translated("inline namespace TESSERA_ISA_NAMESPACE {\nint f();\n"
                                    "}  // namespace TESSERA_ISA_NAMESPACE"), "\nint f();\n")


if __name__ == "__main__":
    unittest.main()
